"""The phantom cohort: what is planted can be measured in its files, and the files are a cohort."""

import hashlib
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import ndimage, stats

from segaudit import read_cohort
from segaudit.errors import AuditError
from segaudit.study import phantoms, spines
from segaudit.study.phantoms import draw, exams, write_phantoms
from segaudit.volumes import read_labels

SHAPE, SPACING = (8, 80, 64), (4.0, 0.9, 0.9)
SIZES = {"gold": 18, "silver": 12, "test": 30, "seed": 5}
VB, DISC = 1, 2


def dice_of(one, other):
    return np.mean(
        [2 * ((one == k) & (other == k)).sum() / ((one == k).sum() + (other == k).sum()) for k in (VB, DISC)]
    )


@pytest.fixture(scope="module")
def people():
    return exams(**SIZES, bodies=spines.bodies_that_fit(SHAPE, SPACING))


@pytest.fixture(scope="module")
def drawn(people):
    return [draw(exam, SHAPE, SPACING, seed=5, number=i) for i, exam in enumerate(people)]


@pytest.fixture(scope="module")
def table(people, drawn):
    """Return what can be measured in the volumes, a row a case."""
    rows = []
    for exam, arrays in zip(people, drawn, strict=True):
        image, truth = arrays["images"].astype(float), arrays["truth"]
        inner = {k: ndimage.binary_erosion(truth == k, np.ones((1, 3, 3))) for k in (VB, DISC)}
        fluid = np.percentile(image, 99)
        rows.append(
            {
                "age": exam.age,
                "male": exam.sex == "Male",
                "vb_mm3": (truth == VB).sum() * np.prod(SPACING),
                "disc_mm": heights_of(truth).mean() * SPACING[1],
                "contrast": (image[inner[DISC]].mean() - image[inner[VB]].mean()) / fluid,
                "rater": dice_of(truth, arrays["expert"]),
            }
        )
    return pd.DataFrame(rows)


def heights_of(truth):
    """Return the largest number of voxels above each other of every disc, on the whole grid."""
    labelled, n = ndimage.label(truth == DISC)
    return np.array([(labelled == k).sum(axis=1).max() for k in range(1, n + 1)])


def slopes_of(table, outcome):
    """Return slope and p of age (per year) and sex (men less women) in one linear model."""
    design = np.column_stack([np.ones(len(table)), table["age"], table["male"]]).astype(float)
    y = table[outcome].to_numpy()
    beta, *_ = np.linalg.lstsq(design, y, rcond=None)
    free = len(y) - 3
    error = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * ((y - design @ beta) ** 2).sum() / free)
    p = 2 * stats.t.sf(np.abs(beta / error), free)
    return {"age": (beta[1], p[1]), "male": (beta[2], p[2])}


def test_truth__holds_whole_bodies_and_discs_that_touch(drawn):
    for arrays in drawn:
        truth = arrays["truth"]
        assert truth.shape == SHAPE
        assert truth.dtype == np.uint8
        assert ndimage.label(truth > 0)[1] == 1, "one piece by faces: the clean-up must not cut the column"
        assert ndimage.label(truth == VB, np.ones((3, 3, 3)))[1] == 4
        assert ndimage.label(truth == DISC)[1] == 3
        assert not any(truth.take(end, axis).any() for axis in (1, 2) for end in (0, -1)), "it lies within the view"


def test_truth__discs_are_six_voxels_high_or_more_whatever_the_age(drawn):
    assert min(heights_of(arrays["truth"]).min() for arrays in drawn) >= 6


def test_expert__is_one_piece_and_close_to_the_truth_but_not_the_same(drawn, table):
    assert all(ndimage.label(arrays["expert"] > 0)[1] == 1 for arrays in drawn)
    assert 0.90 < table["rater"].mean() < 0.94
    assert table["rater"].std() > 0.015, "some cases are drawn with less care"
    assert table["rater"].between(0.8, 0.99).all()


def test_expert__draws_some_cases_too_large_and_some_too_small(drawn):
    excess = np.array([(a["expert"] > 0).sum() / (a["truth"] > 0).sum() for a in drawn]) - 1
    assert (excess > 0.03).mean() > 0.15
    assert (excess < -0.03).mean() > 0.15


def test_planted__age_takes_height_and_signal_from_the_discs(table):
    height, height_p = slopes_of(table, "disc_mm")["age"]
    assert -0.025 < height < -0.008, "mm a year"
    assert height_p < 1e-6
    contrast, contrast_p = slopes_of(table, "contrast")["age"]
    assert contrast < 0
    assert contrast_p < 1e-6
    assert table["contrast"].min() > -0.02, "the oldest discs are as dark as bone, not darker"


def test_planted__women_have_smaller_bodies_and_discs_of_the_same_height(table):
    volume, p = slopes_of(table, "vb_mm3")["male"]
    assert 0.1 < volume / table["vb_mm3"].mean() < 0.4
    assert p < 1e-6
    assert abs(slopes_of(table, "disc_mm")["male"][0]) < 0.25


@pytest.mark.slow
def test_expert__error_depends_on_neither_age_nor_sex(monkeypatch):
    monkeypatch.setattr(spines, "image", lambda *_: None)  # the rater has random numbers of its own
    bodies = spines.bodies_that_fit(SHAPE, SPACING)
    rows = [
        (exam.age, exam.sex == "Male", dice_of(arrays["truth"], arrays["expert"]))
        for seed in range(4)
        for i, exam in enumerate(exams(gold=1, silver=0, test=120, seed=seed, bodies=bodies))
        for arrays in [draw(exam, SHAPE, SPACING, seed=seed, number=i)]
    ]
    table = pd.DataFrame(rows, columns=["age", "male", "rater"])
    slopes = slopes_of(table, "rater")
    assert abs(slopes["age"][0]) * 50 < 0.01, "less than one point in 50 years"
    assert abs(slopes["male"][0]) < 0.01


def test_rater__reaches_the_error_asked_for(people):
    placed = spines.place(people[0].spine, people[0].setting, SHAPE, SPACING)
    truth = placed.surfaces.outline()
    for error in (0.03, 0.08, 0.15):
        made = spines.draw_by_hand(placed.surfaces, SPACING, error, np.random.default_rng(0))
        assert 1 - dice_of(truth, made) == pytest.approx(error, abs=0.01)


def test_truth__is_where_the_finer_drawing_fills_half_the_voxel(people):
    exam = people[0]
    finer = (SHAPE[0] * 9, SHAPE[1] * 3, SHAPE[2] * 3)
    placed = spines.place(
        exam.spine, exam.setting, finer, tuple(mm / n for mm, n in zip(SPACING, (9, 3, 3), strict=True))
    )
    inside = placed.surfaces.outline() > 0
    share = inside.reshape(8, 9, 80, 3, 64, 3).mean(axis=(1, 3, 5))
    truth = spines.place(exam.spine, exam.setting, SHAPE, SPACING).surfaces.outline() > 0
    assert (truth[share > 0.75]).all()
    assert not truth[share < 0.25].any()
    assert 2 * (truth & (share > 0.5)).sum() / (truth.sum() + (share > 0.5).sum()) > 0.985


def test_image__fluid_is_brightest_and_the_border_voxels_lie_between(people):
    exam = replace(people[0], setting=replace(people[0].setting, noise=0.0, gain=1.0))
    arrays = draw(exam, SHAPE, SPACING, seed=5, number=0)
    image, truth = arrays["images"], arrays["truth"]
    assert image.dtype == np.int16
    assert image.min() >= 0
    assert np.percentile(image, 99) > image[truth == DISC].mean() > image[truth == VB].mean()
    again = draw(exam, SHAPE, SPACING, seed=6, number=0)["images"]
    assert not np.array_equal(image, again), "bias and texture are drawn anew"


def test_people__every_stratum_is_in_the_test_part_and_the_sexes_are_halves():
    for gold, silver, test in ((30, 45, 76), (12, 18, 40), (1, 0, phantoms.FEWEST)):
        found = pd.DataFrame(exams(gold=gold, silver=silver, test=test, seed=1, bodies=4))
        assert len(found) == gold + silver + test
        assert found["case"].is_unique
        tested = found[found["part"] == "test"]
        assert set(tested["provenance"]) == {"gold"}
        band = np.digitize(tested["age"], [40, 60])
        assert len(set(zip(band, tested["sex"], strict=True))) == 6
        assert np.bincount(band) / test == pytest.approx([0.2, 0.4, 0.4], abs=0.1)
        assert found["age"].between(18, 89).all()
        assert (tested["sex"] == "Male").mean() == pytest.approx(0.5, abs=0.15)


def test_people__two_exams_of_a_patient_share_anatomy_and_part_but_not_the_image(people, drawn):
    by_patient = {}
    for i, exam in enumerate(people):
        by_patient.setdefault(exam.patient, []).append(i)
    pairs = [both for both in by_patient.values() if len(both) > 1]
    assert len(pairs) >= 3
    for first, second in pairs:
        one, other = people[first], people[second]
        assert one.spine == other.spine
        assert (one.sex, one.part, one.provenance) == (other.sex, other.part, other.provenance)
        assert 0 <= other.age - one.age <= 1
        assert one.setting != other.setting
        assert not np.array_equal(drawn[first]["images"], drawn[second]["images"])
    assert {people[both[0]].part for both in pairs} == {"development", "test"}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return write_phantoms(tmp_path_factory.mktemp("phantoms"), gold=6, silver=4, test=15, seed=7)


def test_files__are_a_cohort_without_errors(small):
    cohort = read_cohort(small.path)
    assert not [finding for finding in cohort.check() if finding.level == "error"]
    assert cohort.labels == {"vb": (VB,), "disc": (DISC,)}
    assert cohort.mask_sets["truth"].made_by == "phantom"
    assert cohort.mask_sets["expert"].kind == "expert"
    joined = cohort.cases.merge(small.cases, on="case", suffixes=("_read", ""), validate="1:1")
    assert len(joined) == 25
    for name in ("patient", "age", "sex", "provenance", "part"):
        assert (joined[f"{name}_read"] == joined[name]).all(), name
    gold = set(small.cases.loc[small.cases["provenance"] == "gold", "case"])
    assert set(cohort.mask_sets["expert"].masks["case"]) == gold
    assert set(cohort.mask_sets["truth"].masks["case"]) == set(cohort.images) == set(small.cases["case"])
    assert small.cases["rater_dice"].isna().equals(small.cases["provenance"] == "silver")


def test_files__hold_what_was_drawn_on_a_sagittal_grid(small):
    nibabel = pytest.importorskip("nibabel")
    case = small.cases["case"][0]
    expected = draw(exams(gold=6, silver=4, test=15, seed=7, bodies=4)[0], SHAPE, SPACING, seed=7, number=0)
    for name in ("images", "truth", "expert"):
        image = nibabel.load(small.path.parent / name / f"{case}.nii.gz")
        assert nibabel.aff2axcodes(image.affine) == ("P", "S", "L")
        assert image.header.get_zooms() == pytest.approx((0.9, 0.9, 4.0))
        assert np.array_equal(np.asarray(image.dataobj).T, expected[name])


def test_files__nnunet_sees_slices_first(small):
    simpleitk = pytest.importorskip("nnunetv2.imageio.simpleitk_reader_writer")
    case = small.cases["case"][0]
    reader = simpleitk.SimpleITKIO()
    image, seen = reader.read_images([str(small.path.parent / "images" / f"{case}.nii.gz")])
    label, _ = reader.read_seg(str(small.path.parent / "truth" / f"{case}.nii.gz"))
    assert image.shape == label.shape == (1, *SHAPE)
    assert seen["spacing"] == pytest.approx(SPACING)


def digests(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_files__the_same_seed_gives_the_same_bytes_also_over_a_half_written_folder(small, tmp_path):
    home = small.path.parent
    again = write_phantoms(tmp_path / "again", gold=6, silver=4, test=15, seed=7)
    assert digests(tmp_path / "again") == digests(home)
    pd.testing.assert_frame_equal(again.cases, small.cases)
    again.path.unlink()
    (tmp_path / "again" / "truth" / f"{small.cases['case'][3]}.nii.gz").unlink()
    (tmp_path / "again" / "study.toml").touch()
    (tmp_path / "again" / "images" / f".{small.cases['case'][3]}.nii.gz.1.tmp").touch()
    write_phantoms(tmp_path / "again", gold=6, silver=4, test=15, seed=7)
    found = digests(tmp_path / "again")
    assert found.pop("study.toml"), "what others wrote stays"
    assert {name: digest for name, digest in found.items() if not name.endswith(".tmp")} == digests(home)


def test_files__another_seed_gives_others(small, tmp_path):
    other = write_phantoms(tmp_path, gold=6, silver=4, test=15, seed=8)
    first = f"{small.cases['case'][0]}.nii.gz"
    one, two = (read_labels(path.parent / "truth" / first).labels for path in (small.path, other.path))
    assert not np.array_equal(one, two)


def test_files__nothing_of_another_cohort_may_stay(small, tmp_path):
    write_phantoms(tmp_path, gold=6, silver=0, test=15, seed=7)
    before = digests(tmp_path)
    with pytest.raises(AuditError) as caught:
        write_phantoms(tmp_path, gold=3, silver=0, test=15, seed=7)
    assert [finding.code for finding in caught.value.findings] == ["FOLDER_NOT_EMPTY"]
    assert "p01" in caught.value.findings[0].message
    assert digests(tmp_path) == before


def test_files__a_folder_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(AuditError) as caught:
        write_phantoms(tmp_path / "file" / "below", gold=6, silver=0, test=15, seed=7)
    assert [finding.code for finding in caught.value.findings] == ["FOLDER_NOT_WRITTEN"]


def test_settings__every_fault_is_told_at_once(tmp_path):
    with pytest.raises(AuditError) as caught:
        write_phantoms(tmp_path / "new", gold=0, silver=-1, test=3, seed=-1, shape=(8, 20, 64))
    assert [finding.code for finding in caught.value.findings] == ["SIMULATION_VALUE"] * 4 + ["SIMULATION_GRID"]
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("shape", "spacing", "bodies", "why"),
    [
        (SHAPE, SPACING, 4, "the miniature's"),
        ((16, 160, 128), (2.0, 0.45, 0.45), 4, "the same view, finer"),
        ((8, 45, 64), SPACING, 2, "about the lowest"),
        ((6, 80, 64), SPACING, 0, "too narrow"),
    ],
)
def test_grid__holds_as_many_bodies_as_fit(shape, spacing, bodies, why):
    assert spines.bodies_that_fit(shape, spacing) == bodies, why
    if bodies:
        exam = exams(gold=1, silver=0, test=15, seed=0, bodies=bodies)[0]
        truth = draw(exam, shape, spacing, seed=0, number=0)["truth"]
        assert ndimage.label(truth == DISC)[1] == bodies - 1
