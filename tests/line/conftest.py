"""A small line of files that is right: what a test breaks is its own."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from segaudit.audits import Plan
from segaudit.lines import People, audit_scores, cohort_of_scores, read_rulers
from segaudit.volumes import write_labels

N_PATIENTS = 24


@dataclass(frozen=True)
class Bench:
    """A folder with masks, score tables, participants, cohort.toml and audit.toml."""

    home: Path

    def __truediv__(self, name: str) -> Path:
        return self.home / name

    def write(self, name: str, text: str | bytes) -> Path:
        path = self.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def edit(self, name: str, old: str, new: str) -> Path:
        text = (self.home / name).read_text()
        assert old in text, f"{old!r} is not in {name}"
        return self.write(name, text.replace(old, new))

    def listing(self) -> dict[str, bytes]:
        """Return every file below the folder with its bytes (a link with its target)."""
        return {
            str(path.relative_to(self.home)): str(path.readlink()).encode() if path.is_symlink() else path.read_bytes()
            for path in sorted(self.home.rglob("*"))
            if path.is_symlink() or path.is_file()
        }


def volume(shift=0, values=(1, 2)):
    labels = np.zeros((8, 8, 8), np.uint8)
    labels[1:4, 2:6, 1 + shift : 4 + shift] = values[0]
    labels[4:7, 2:6, 1 + shift : 4 + shift] = values[1]
    return labels


def write_masks(folder, cases, shift=0, values=(1, 2)):
    folder.mkdir(parents=True, exist_ok=True)
    for i, case in enumerate(cases):
        write_labels(folder / f"{case}.nii.gz", volume((shift + i) % 3, values), spacing_mm=(1.0, 1.0, 2.0))


def scores_csv(gap=0.0, shift=0.0):
    """Return a wide table: 24 cases, dice and hd95 of two structures, men lower by `gap`."""
    lines = ["case,dice_vb,dice_disc,hd95_vb,hd95_disc"]
    for i in range(N_PATIENTS):
        dice = 0.85 + 0.01 * (i % 7) - gap * (i % 2) + shift
        lines.append(f"c{i:02d},{dice:.4f},{dice - 0.03:.4f},{2 + (i % 5) / 10:.2f},{3 + (i % 3) / 10:.2f}")
    return "\n".join(lines) + "\n"


def people_csv():
    lines = ["case,patient,sex,age,site"]
    lines += [f"c{i:02d},p{i:02d},{'FM'[i % 2]},{25 + 2 * i},{'AB'[i % 3 == 0]}" for i in range(N_PATIENTS)]
    return "\n".join(lines) + "\n"


COHORT = """\
name = "bench"
[participants]
file = "people.csv"
key = "case"
patient = "patient"
[labels]
vb = 1
disc = 2
[[mask_sets]]
name = "mix"
folder = "pred"
kind = "machine"
[[mask_sets]]
name = "gold"
folder = "gold"
kind = "expert"
[[mask_sets]]
name = "silver"
folder = "silver"
kind = "machine"
"""

PLAN = """\
cohort = "cohort.toml"
output = "run"
models = ["mix"]
rulers = ["gold", "silver"]
trusted = "gold"
metrics = ["dice", "hd95"]
by = ["sex"]
resamples = 199
min_patients = 2
workers = 1
seed = 7
"""


@pytest.fixture(scope="session")
def audited_once(tmp_path_factory) -> Path:
    """Return a run directory of two rulers that was audited once for all tests; copy it before it is changed."""
    home = tmp_path_factory.mktemp("audited")
    for name, shift in (("gold", 0.0), ("silver", 0.01)):
        (home / f"{name}.csv").write_text(scores_csv(shift=shift))
    scores = read_rulers({name: home / f"{name}.csv" for name in ("gold", "silver")}, {}, "model")
    plan = Plan(resamples=199)
    audit_scores(scores, cohort_of_scores(scores, People(), plan), plan, out=home / "run")
    return home / "run"


@pytest.fixture
def bench(tmp_path) -> Bench:
    """Return a folder whose files are all as they should be."""
    home = Bench(tmp_path / "bench")
    home.write("gold.csv", scores_csv())
    home.write("silver.csv", scores_csv(shift=0.01))
    home.write("people.csv", people_csv())
    home.write("cohort.toml", COHORT)
    home.write("audit.toml", PLAN)
    for name, shift in (("pred", 0), ("gold", 1), ("silver", 0)):
        write_masks(home / name, ("c00", "c01", "c02", "c03"), shift)
    return home
