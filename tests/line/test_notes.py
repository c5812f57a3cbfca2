"""Notes that many masks share stand once."""

from dataclasses import replace

from segaudit.errors import Finding
from segaudit.scores.measure import _gathered


def test_notes__of_many_masks_are_one_with_count_and_examples():
    note = Finding("GRID_ROUNDED", "the affines differ by 0.001 mm.", "", "none needed.", "note")
    rounded = [replace(note, where=f"case 'c{i}'") for i in range(59)]
    few = [replace(note, code="GRID_REORIENTED", where=f"case 'c{i}'") for i in range(3)]
    warnings = [replace(note, code="IMAGE_ODD", where=f"case 'c{i}'", level="warning") for i in range(9)]
    found = _gathered([*few, *rounded, *rounded[:4], *warnings])
    assert found[:-1] == [*few, *warnings]
    assert found[-1].message == "59 of them; the first: the affines differ by 0.001 mm."
    assert found[-1].where == "case 'c0'; case 'c1'; case 'c2' and 56 more"
