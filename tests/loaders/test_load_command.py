"""segaudit load: a delivery becomes a cohort.toml that the other commands read."""

import json

import pandas as pd
import pytest

from segaudit.cohorts import read_cohort
from segaudit.errors import AuditError
from segaudit.loaders import LOADERS, load_cspineseg, load_delivery, write_cspineseg


@pytest.fixture
def delivery(tmp_path):
    """A small CSpineSeg folder, and a list of the series that experts outlined."""
    names = write_cspineseg(tmp_path / "delivery", n_exams=30, n_patients=27, seed=2)
    (tmp_path / "gold.txt").write_text("\n".join(names[:10]))
    return tmp_path / "delivery"


def test_load__writes_a_cohort_that_the_other_commands_read(delivery, tmp_path, command):
    made = command("load", "cspineseg", delivery, "--gold", tmp_path / "gold.txt", "-o", tmp_path / "cohort")
    assert (made.status, made.err) == (0, "")
    told = load_cspineseg(delivery, gold=tmp_path / "gold.txt")
    for line in ("29 cases of", "reference (machine 19, expert 10) 29 of 29 cases", "localizer 1", "AGE_TOP_CODED"):
        assert line in made.out
    path = tmp_path / "cohort" / "cohort.toml"
    assert str(path) in made.out.replace("\n", "")
    pd.testing.assert_frame_equal(read_cohort(path).cases, told.cases)
    assert command("check", path).status == 0
    table = command("cohort", path, "--by", "provenance")
    assert (table.status, "Table 1" in table.out) == (0, True)
    split = command("split", path, "--stratify", "sex", "-o", tmp_path / "split")
    assert split.status == 0, split.err
    assert len(pd.read_csv(tmp_path / "split" / "splits.csv")) == len(told.cases)


def test_load__masks_that_a_table_lists_are_scored(delivery, tmp_path, command):
    masks = sorted((delivery / "segmentation").glob("*.nii.gz"))[:3]
    rows = [f"c{n},p{n},{path},{path if n else 'n/a'}" for n, path in enumerate(masks)]
    (tmp_path / "cases.csv").write_text("\n".join(["case,patient,gold,net", *rows]))
    words = ["--masks", "expert=gold", "--masks", "mix=net", "--labels", "vb=1,disc=2", "--key", "case"]
    made = command("load", "table", tmp_path / "cases.csv", *words, "-o", tmp_path / "cohort", "--json")
    assert made.status == 0, made.err
    assert "MASKS_MISSING" in {finding["code"] for finding in json.loads(made.out)}
    path = tmp_path / "cohort" / "cohort.toml"
    options = ["--models", "mix", "--rulers", "expert", "--metrics", "dice", "--workers", "1"]
    scored = command("score", path, *options, "-o", tmp_path / "run")
    assert scored.status == 0, scored.err
    scores = pd.read_csv(tmp_path / "run" / "scores.csv").query("metric == 'dice'")
    assert len(scores) == 9
    assert set(scores.loc[scores["status"] == "ok", "value"]) == {1.0}
    assert set(scores.loc[scores["case"] == "c0", "status"]) == {"prediction_missing"}


def test_load__a_run_goes_on_from_the_written_cohort_as_from_the_delivery(delivery, tmp_path, command):
    from segaudit.cohorts import write_cohort
    from segaudit.runs import read_cohort_of
    from segaudit.store import RunDirectory

    masks = sorted((delivery / "segmentation").glob("*.nii.gz"))[:3]
    rows = [f"c{n},p{n},{(n % 2 and 'F') or 'M'},{path}" for n, path in enumerate(masks)]
    (tmp_path / "cases.csv").write_text("\n".join(["case,patient,sex,gold", *rows]))
    words = ["--masks", "a=gold", "--masks", "b=gold", "--labels", "vb=1", "--key", "case", "-o", tmp_path / "cohort"]
    assert command("load", "table", tmp_path / "cases.csv", *words).status == 0
    options = ["--metrics", "dice", "--workers", "1", "-o", tmp_path / "run"]
    assert command("score", tmp_path / "cohort" / "cohort.toml", *options).status == 0
    of_run = read_cohort_of(RunDirectory(tmp_path / "run"))
    again = read_cohort(write_cohort(of_run, tmp_path / "again"))
    pd.testing.assert_frame_equal(again.cases, of_run.cases, check_dtype=False)
    for name in ("a", "b"):
        found = again.mask_sets[name].masks["path"].tolist()
        assert found == of_run.mask_sets[name].masks["path"].tolist() == [str(path) for path in masks]


def test_load__writes_over_no_file_of_somebody_else(delivery, tmp_path, command):
    (tmp_path / "cohort.toml").write_text("name = 'mine'")
    made = command("load", "cspineseg", delivery, "-o", tmp_path)
    assert made.status == 2
    assert "COHORT_EXISTS" in made.err
    assert (tmp_path / "cohort.toml").read_text() == "name = 'mine'"


def test_load__faults_of_the_options_come_at_once(delivery, tmp_path, command):
    made = command("load", "table", delivery, "--gold", "x", "--made-by", "y", "-o", tmp_path / "new")
    assert made.status == 2
    assert made.err.count("OPTION_UNKNOWN") == 2
    assert "the loader 'table' needs the option 'masks'" in made.err
    assert not (tmp_path / "new").exists()


def test_load_delivery__an_unknown_loader_is_told_with_those_known(tmp_path):
    with pytest.raises(AuditError, match="UNKNOWN_LOADER"):
        load_delivery("dicom", tmp_path)


def test_load_delivery__a_mask_set_without_masks_is_left_out_with_a_warning(delivery):
    for path in (delivery / "segmentation").iterdir():
        path.unlink()
    found = load_delivery("cspineseg", delivery, gold=None)
    assert not found.mask_sets
    assert ("MASKS_NONE", "warning") in {(f.code, f.level) for f in found.findings}


@pytest.mark.parametrize("loader", LOADERS.names())
def test_load__the_help_names_every_loader(loader, command):
    assert loader in command("load", "--help").out
