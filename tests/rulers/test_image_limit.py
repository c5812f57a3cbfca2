"""The limit on images that a run was scored with holds for what reads its masks later."""

import pytest

import segaudit as sa
from segaudit import lines
from segaudit.confounders import measure_structures
from segaudit.errors import AuditError
from segaudit.runs import image_limit
from segaudit.store import RunDirectory
from segaudit.volumes import DEFAULT_MAX_BYTES

SHAPE = (9, 40, 40)
VOXELS = 9 * 40 * 40


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("limit")
    toml = sa.simulate_cohort(folder / "cohort", patients=12, shape=SHAPE, rulers=["clone"])
    cohort = sa.read_cohort(toml)
    means = lines.Means(1, max_bytes=VOXELS)
    scores = lines.score_line(cohort, folder / "run", metrics=["dice"], means=means)
    return cohort, scores, folder / "run"


def test_image_limit__is_what_the_run_was_scored_with(scored, tmp_path):
    assert image_limit(RunDirectory(scored[2])) == VOXELS
    assert image_limit(RunDirectory(tmp_path)) == DEFAULT_MAX_BYTES


def test_audit_run__compares_masks_under_the_limit_of_the_scores(scored, monkeypatch):
    given = []

    def spied(*names, compared=lines.compare_rulers, **options):
        given.append(options["max_bytes"])
        return compared(*names, **options)

    monkeypatch.setattr(lines, "compare_rulers", spied)
    result = lines.audit_run(scored[2], sa.Plan(), workers=1)
    assert given == [VOXELS]
    assert "INDEPENDENCE_SKIPPED" not in {f.code for f in result.comparisons[0].findings}


def test_compare_rulers__passes_over_masks_beyond_the_limit(scored):
    cohort, scores, _ = scored
    trusted, other = scores.rulers
    found = sa.compare_rulers(sa.audit(scores, cohort), trusted, other, max_bytes=VOXELS - 1)
    (skipped,) = [f for f in found.findings if f.code == "INDEPENDENCE_SKIPPED"]
    assert f"more than max_bytes = {VOXELS - 1}" in skipped.message
    assert not (found.independence["quantity"] == "independence").any()


def test_measure_structures__refuses_masks_beyond_the_limit(scored):
    cohort = scored[0]
    name = next(iter(cohort.mask_sets))
    assert len(measure_structures(cohort, name, max_bytes=VOXELS))
    with pytest.raises(AuditError, match="more than max_bytes"):
        measure_structures(cohort, name, max_bytes=VOXELS - 1)
