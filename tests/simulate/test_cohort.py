"""The simulated cohort on disk, and the faults planted in its rulers."""

import hashlib
import json

import nibabel as nib
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from segaudit.config import read_toml
from segaudit.config.cohort import CohortFile
from segaudit.config.plan import PlanFile
from segaudit.errors import AuditError
from segaudit.simulate import simulate_cohort
from segaudit.simulate.makers import EXPERT, MODEL, RULERS, draw
from segaudit.simulate.people import exams
from segaudit.simulate.phantoms import LABELS, build, outline

SMALL = {"patients": 30, "shape": (9, 34, 46), "spacing_mm": (4.0, 0.9, 0.9)}
SETS = ["model", "expert", "clone", "biased", "noisy", "equal"]


def dice(one, other):
    return np.mean(
        [2 * ((one == k) & (other == k)).sum() / ((one == k).sum() + (other == k).sum()) for k in LABELS.values()]
    )


def digests(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = simulate_cohort(tmp_path_factory.mktemp("cohort") / "new", seed=3, **SMALL)
    assert path.name == "cohort.toml"
    return path.parent


@pytest.fixture(scope="module")
def participants(folder):
    return pd.read_csv(folder / "participants.tsv", sep="\t", dtype=str, keep_default_na=False)


def test_cohort__each_mask_set_has_one_file_a_case_on_one_grid(folder, participants):
    for name in [*SETS, "images"]:
        files = sorted((folder / name).iterdir())
        assert [file.name for file in files] == [f"{case}.nii.gz" for case in participants["case"]]
        for file in files[:5]:
            image = nib.load(file)
            assert image.shape == SMALL["shape"]
            assert image.header.get_zooms() == pytest.approx(SMALL["spacing_mm"])
            assert nib.aff2axcodes(image.affine) == ("R", "A", "S")
            values = set(np.unique(np.asanyarray(image.dataobj)).tolist())
            assert values == {0, 1, 2} if name != "images" else len(values) > 5


def test_cohort__participants_look_like_real_ones(participants):
    assert list(participants.columns) == ["case", "patient", "sex", "age", "race"]
    assert participants["case"].is_monotonic_increasing
    exams_of = participants["patient"].value_counts()
    assert (exams_of == 2).sum() == 2
    assert len(exams_of) == SMALL["patients"]
    assert exams_of.max() == 2
    assert (participants["age"] == "89+").sum() == 1
    age = participants["age"].str.rstrip("+").astype(int)
    assert age.between(18, 89).all()
    assert set(participants["sex"]) == {"Female", "Male"}
    assert 1 <= (participants["race"] == "n/a").sum() <= 3
    told = participants[["patient", "sex", "race"]].drop_duplicates()
    assert len(told) == SMALL["patients"], "a patient's sex and race do not change between exams"


def test_cohort__age_groups_follow_the_study(tmp_path):
    people = exams(76, np.random.default_rng(0))
    patients = {exam.patient: exam for exam in people}.values()
    assert np.bincount([exam.band for exam in patients]).tolist() == [21, 29, 26]
    assert all(exam.band == np.searchsorted([40, 60], exam.age, side="right") for exam in people)


def test_cohort__its_files_are_what_segaudit_reads(folder):
    cohort = read_toml(folder / "cohort.toml", CohortFile)
    assert [entry.name for entry in cohort.mask_sets] == SETS
    assert cohort.labels == LABELS
    kinds = {entry.name: entry.kind for entry in cohort.mask_sets}
    assert kinds == dict(zip(SETS, ["machine", "expert", "machine", "machine", "expert", "expert"], strict=True))
    trained = {entry.name: entry.trained_on for entry in cohort.mask_sets}
    assert trained["model"] == trained["clone"] != trained["biased"]
    plan = read_toml(folder / "audit.toml", PlanFile)
    assert plan.rulers == SETS[1:]
    assert (plan.cohort, plan.models, plan.trusted, plan.seed) == ("cohort.toml", ["model"], "expert", 42)
    assert plan.by == ["sex", "age:40,60", "race"]
    assert plan.success == {"dice": 0.8, "ndsc": 0.8, "hd95": 5.0}
    assert plan.margin == {"dice": 0.03}


def test_cohort__truth_holds_the_scores_of_the_files(folder, participants):
    truth = json.loads((folder / "truth.json").read_text())
    assert truth["planted"]["gap_points"] == 3.5
    assert truth["cases"] == len(participants) == SMALL["patients"] + 2
    assert set(truth["realised"]) == {"anatomy", *SETS[1:]}
    age = participants["age"].str.rstrip("+").astype(int)
    for ruler in SETS[1:]:
        scores = pd.Series(
            [
                dice(*(np.asanyarray(nib.load(folder / name / f"{case}.nii.gz").dataobj) for name in ("model", ruler)))
                for case in participants["case"]
            ]
        )
        found = truth["realised"][ruler]
        assert found["mean_dice"] == pytest.approx(scores.mean(), abs=1e-6)
        assert found["sd_dice"] == pytest.approx(scores.std(), abs=1e-6)
        gap = scores[age < 40].median() - scores[age >= 60].median()
        assert found["gap_points"] == pytest.approx(100 * gap, abs=1e-4)


def test_cohort__same_seed_gives_the_same_bytes_and_another_seed_does_not(folder, tmp_path):
    simulate_cohort(tmp_path / "again", seed=3, **SMALL)
    assert digests(tmp_path / "again") == digests(folder)
    simulate_cohort(tmp_path / "other", seed=4, **SMALL)
    other, ours = digests(tmp_path / "other"), digests(folder)
    assert not any(other[name] == ours[name] for name in ours if name in other and name.endswith(".nii.gz"))


def test_cohort__masks_do_not_depend_on_which_rulers_are_written(folder, tmp_path):
    simulate_cohort(tmp_path / "few", seed=3, rulers=["equal"], images=False, **SMALL)
    few, ours = digests(tmp_path / "few"), digests(folder)
    masks = [name for name in few if name.endswith(".nii.gz")]
    assert {name.split("/")[0] for name in masks} == {"model", "expert", "equal"}
    assert all(few[name] == ours[name] for name in masks)
    assert read_toml(tmp_path / "few" / "audit.toml", PlanFile).rulers == ["expert", "equal"]


@pytest.mark.parametrize(
    ("options", "code", "why"),
    [
        ({"patients": 11}, "SIMULATION_VALUE", "too few for three groups and two second exams"),
        ({"seed": -1}, "SIMULATION_VALUE", "a seed is 0 or more"),
        ({"gap_points": 8.5}, "SIMULATION_VALUE", "no disc would be left"),
        ({"gap_points": float("nan")}, "SIMULATION_VALUE", "no number"),
        ({"rulers": ["clone", "clone"]}, "SIMULATION_VALUE", "one folder a ruler"),
        ({"rulers": ["klone"]}, "UNKNOWN_RULER", "did you mean clone"),
        ({"shape": (8, 34, 46)}, "SIMULATION_GRID", "narrower than a column"),
        ({"shape": (9, 34)}, "SIMULATION_VALUE", "two axes"),
        ({"spacing_mm": (4.0, 0.0, 0.9)}, "SIMULATION_VALUE", "no spacing"),
    ],
)
def test_cohort__bad_option_is_refused_before_anything_is_written(tmp_path, options, code, why):
    with pytest.raises(AuditError) as caught:
        simulate_cohort(tmp_path / "new", **{**SMALL, **options})
    assert [finding.code for finding in caught.value.findings] == [code], why
    assert caught.value.findings[0].fix
    assert not (tmp_path / "new").exists()


def test_cohort__all_faults_are_named_at_once_and_an_old_cohort_is_left_alone(folder):
    before = digests(folder)
    with pytest.raises(AuditError) as caught:
        simulate_cohort(folder, patients=3, seed=-1, rulers=["klone"])
    codes = [finding.code for finding in caught.value.findings]
    assert codes == ["SIMULATION_VALUE", "SIMULATION_VALUE", "UNKNOWN_RULER", "FOLDER_NOT_EMPTY"]
    assert digests(folder) == before


def test_cohort__folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(AuditError) as caught:
        simulate_cohort(tmp_path / "file" / "new", **SMALL)
    assert caught.value.findings[0].code == "FOLDER_NOT_WRITTEN"


def scores_of(seed, gap_points):
    """Return the model's Dice against each ruler for a cohort of the default size, and its exams."""
    people = exams(120, np.random.default_rng(seed))
    found = {name: [] for name in ("anatomy", *SETS[1:])}
    for number, exam in enumerate(people):
        anatomy = build(exam.column, (16, 80, 96), (4.0, 0.9, 0.9))
        makers = (MODEL, EXPERT, *RULERS.values())
        maps = draw(exam, anatomy, makers, gap_points=gap_points, seed=seed, number=number)
        maps["anatomy"] = outline(anatomy, 0.0)
        for name, values in found.items():
            values.append(dice(maps["model"], maps[name]))
    return {name: np.array(values) for name, values in found.items()}, people


def gap(scores, bands):
    return 100 * (np.median(scores[bands == 0]) - np.median(scores[bands == 2]))


def noise(scores, bands):
    return np.mean(np.abs(scores - np.array([np.median(scores[bands == band]) for band in range(3)])[bands]))


def p_value(scores, groups):
    return stats.kruskal(*(scores[groups == group] for group in np.unique(groups))).pvalue


@pytest.fixture(scope="module")
def planted():
    """Return four cohorts with a gap of 3.5 points: scores by ruler and age bands."""
    drawn = [scores_of(seed, 3.5) for seed in range(100, 104)]
    return [(scores, np.array([exam.band for exam in people])) for scores, people in drawn]


@pytest.mark.slow
def test_planted__expert_scores_are_realistic_and_show_the_gap(planted):
    gaps = []
    for scores, bands in planted:
        assert 0.87 < scores["expert"].mean() < 0.92
        assert 0.96 < scores["clone"].mean() < 0.98
        assert p_value(scores["expert"], bands) < 0.01
        gaps.append(gap(scores["expert"], bands))
    assert np.mean(gaps) == pytest.approx(3.5, abs=4 * 0.85 / np.sqrt(len(planted)))
    assert min(gaps) > 1


@pytest.mark.slow
def test_planted__clone_inflates_and_collapses(planted):
    for scores, bands in planted:
        assert np.all(scores["clone"] > scores["expert"])
        assert scores["clone"].std() < 0.5 * scores["expert"].std()
        assert noise(scores["clone"], bands) < 0.5 * noise(scores["expert"], bands)
        assert 0 < gap(scores["clone"], bands) < 0.6 * gap(scores["expert"], bands)


@pytest.mark.slow
def test_planted__biased_ruler_triples_the_gap_at_about_the_same_noise(planted):
    ratio = np.mean([gap(s["biased"], b) for s, b in planted]) / np.mean([gap(s["expert"], b) for s, b in planted])
    assert ratio == pytest.approx(3, abs=0.6)
    for scores, bands in planted:
        assert gap(scores["biased"], bands) > gap(scores["expert"], bands) + 4
        assert 0.9 < noise(scores["biased"], bands) / noise(scores["expert"], bands) < 1.5
        young = bands == 0
        assert scores["biased"][young].mean() == pytest.approx(scores["expert"][young].mean(), abs=0.01)


@pytest.mark.slow
def test_planted__noisy_ruler_multiplies_the_noise_and_deflates(planted):
    ratios = [noise(scores["noisy"], bands) / noise(scores["expert"], bands) for scores, bands in planted]
    assert np.mean(ratios) == pytest.approx(2.5, abs=0.4)
    assert all(1.8 < ratio < 3.4 for ratio in ratios)
    assert all(scores["noisy"].mean() < scores["expert"].mean() for scores, _ in planted)


@pytest.mark.slow
def test_planted__equal_ruler_changes_neither_level_noise_nor_gap(planted):
    for scores, bands in planted:
        assert scores["equal"].mean() == pytest.approx(scores["expert"].mean(), abs=0.005)
        assert noise(scores["equal"], bands) / noise(scores["expert"], bands) == pytest.approx(1, abs=0.15)
        assert gap(scores["equal"], bands) == pytest.approx(gap(scores["expert"], bands), abs=1.5)


@pytest.mark.slow
def test_planted__without_a_gap_none_is_found_by_age_or_sex():
    p_values = {"age": [], "sex": []}
    for seed in range(100, 104):
        scores, people = scores_of(seed, 0.0)
        p_values["age"].append(p_value(scores["expert"], np.array([exam.band for exam in people])))
        p_values["sex"].append(p_value(scores["expert"], np.array([exam.sex for exam in people])))
    assert min(p_values["age"]) > 0.01
    assert min(p_values["sex"]) > 0.01
    assert sum(p < 0.05 for p in p_values["age"] + p_values["sex"]) <= 1
