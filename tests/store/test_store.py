import json

import numpy as np
import pandas as pd
import pytest

from segaudit.errors import AuditError
from segaudit.provenance import Step, inputs
from segaudit.store import RunDirectory, atomic
from segaudit.tables import FINDINGS, RULERS


def _rulers_row(quantity, value):
    row = dict.fromkeys(RULERS.names(), "")
    row |= {"quantity": quantity, "value": value, "trusted_value": 0.5, "other_value": np.nan}
    return row | {"low": np.nan, "high": 1.0, "p": 0.25}


def test_run__a_table_reads_back_as_it_was_written(tmp_path):
    run = RunDirectory(tmp_path / "run", create=True)
    table = RULERS.frame([_rulers_row("inflation", 0.1 + 0.2), _rulers_row("verdict_class", "false confidence")])
    run.write_table(RULERS, table)
    back = run.read_table(RULERS)
    assert back["value"].tolist() == [0.1 + 0.2, "false confidence"]
    assert np.isnan(back["low"]).all()
    pd.testing.assert_frame_equal(back, table, check_dtype=True)


def test_run__equal_tables_give_equal_bytes(tmp_path):
    table = RULERS.frame([_rulers_row("inflation", 1 / 3)])
    for name in ("a", "b"):
        RunDirectory(tmp_path / name, create=True).write_table(RULERS, table)
    for suffix in ("csv", "parquet"):
        assert (tmp_path / f"a/rulers.{suffix}").read_bytes() == (tmp_path / f"b/rulers.{suffix}").read_bytes()


def test_run__missing_and_malformed_tables_are_named(tmp_path):
    run = RunDirectory(tmp_path)
    with pytest.raises(AuditError, match="RUN_TABLE_MISSING"):
        run.read_table(FINDINGS)
    (tmp_path / "findings.csv").write_text("code,level\nA,note\n")
    with pytest.raises(AuditError, match="RUN_TABLE_MALFORMED"):
        run.read_table(FINDINGS)
    with pytest.raises(AuditError, match="RUN_MISSING"):
        RunDirectory(tmp_path / "none")


def test_verify__names_changed_and_missing_files(tmp_path):
    source = tmp_path / "in.csv"
    source.write_text("a\n")
    run = RunDirectory(tmp_path / "run", create=True)
    written = run.write_json("audit.json", {"a": 1})
    run.record(Step("audit", inputs=inputs([source])), written)
    assert run.verify() == []
    source.write_text("b\n")
    (run.path / "audit.json").unlink()
    assert [f.code for f in run.verify()] == ["OUTPUT_MISSING", "INPUT_CHANGED"]


def test_record__a_verb_run_again_drops_what_followed_it(tmp_path):
    run = RunDirectory(tmp_path)
    for verb in ("score", "audit", "score"):
        run.record(Step(verb), run.write_json("x.json", {"verb": verb}))
    assert [step.verb for step in run.steps()] == ["score"]


def test_verify__notes_other_versions(tmp_path):
    run = RunDirectory(tmp_path)
    run.record(Step("audit"), run.write_json("x.json", {}))
    steps = json.loads((tmp_path / "steps.json").read_text())
    steps[0]["versions"]["numpy"] = "0.0"
    (tmp_path / "steps.json").write_text(json.dumps(steps))
    assert [f.code for f in run.verify()] == ["VERSION_CHANGED"]


def test_atomic__a_failed_block_leaves_the_old_file_and_no_other(tmp_path):
    target = tmp_path / "t.txt"
    target.write_text("old")

    def write_half():
        with atomic(target) as temporary:
            temporary.write_text("half")
            raise KeyError

    with pytest.raises(KeyError):
        write_half()
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["t.txt"]


def test_schema__refuses_two_rows_of_one_key():
    with pytest.raises(ValueError, match="share the key"):
        RULERS.frame([_rulers_row("inflation", 1.0), _rulers_row("inflation", 2.0)])
