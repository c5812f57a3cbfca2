"""The commented study.toml that `segaudit study init` writes."""

from __future__ import annotations

from pathlib import Path

from segaudit.errors import AuditError, Finding
from segaudit.store import atomic

EXAMPLE = """\
# A study: networks trained on different labels, audited against different rulers. Paths are relative to this file.
# `segaudit study plan study.toml` says what would run. `segaudit study run study.toml` runs it, and goes on where it
# stopped.

cohort = "cohort.toml"                # cases, attributes, images and mask sets
split = "splits.csv"                  # of `segaudit split`: case, patient, split
output = "study"                      # the study's folder
development = ["train", "val"]        # parts that networks learn from, pooled; the folds below divide them
test = ["test"]                       # parts that no network may have seen
reference = ["expert", "silver"]      # mask sets that test cases are scored against: the first that has the case
trusted = "expert"                    # the ruler that is believed (default: the first reference)
stratify = ["race", "age:40,60", "sex"]  # folds are grouped by patient and even in these
n_folds = 5
seed = 42
clean_up = ["mixed"]                  # regimes of whose predictions only the largest connected piece is kept

# One entry a regime: who trains on which labels. `labels` names mask sets, or regimes whose predictions are the labels;
# of a case the first that has it is used.
[[regimes]]
name = "mixed"
labels = ["expert", "silver"]

[[regimes]]
name = "gold"
labels = ["expert"]
# kinds = ["expert"]                  # only labels of these kinds, where one mask set holds several
# where = ["age < 40"]                # only these cases
# cases = "split/gold/splits.csv"     # only the cases of a table, such as a regime of `segaudit split`
# configurations = ["2d"]             # default: those of [network]
# folds = "all"                       # one network of all cases; default "each": one a fold
# audited = false                     # trained, but no model of the audit

# Rulers beside the trusted one: predictions of a regime, of networks trained on one group, or a mask set.
[[rulers]]
made_by = "gold"

# [[rulers]]
# trained_on = "age < 40"             # a ruler biased on purpose; with labels, configurations and folds of its own

[network]
configurations = ["2d", "3d_fullres"]
planner = "nnUNetPlannerResEncL"      # a class of nnU-Net, or module:Class
trainer = "nnUNetTrainer"
plan_from = "mixed"                   # one plan for all regimes, made on this one's data
channel = "T2"                        # anything but CT is normalised by z-score

[machine]
device = "cuda"                       # cuda, cpu, mps
gpus = 1                              # of this machine; with --profile slurm the cluster's are used
jobs = 1                              # steps at a time on this machine
threads = 8                           # of one step
augmenters = 8                        # processes that load and augment, beside a training on a GPU
exporters = 4                         # processes that write predictions
hours_a_fold = 35                     # for the estimate

[audit]                               # as audit.toml, without cohort, models and rulers
by = ["sex", "race=White,Black or African American", "age:40,60"]
metrics = ["dice", "ndsc", "hd95"]
success = { dice = 0.8, ndsc = 0.8, hd95 = 5.0 }
margin = { dice = 0.03 }
seed = 42

[carbon]
# a board by the name that torch gives it, or a core of `cpu`
watts = { "NVIDIA A100-PCIE-40GB" = 250, "NVIDIA L40S" = 350, cpu = 10 }
pue = 1.58                            # with pue_range = [1.55, 1.67], its default
grid_g_per_kwh = [99, 138]
"""


def write_example(path: Path) -> None:
    """Write a commented study.toml.

    Raises
    ------
    AuditError
        FILE_EXISTS, DISK_FULL, RUN_UNWRITABLE.
    """
    if path.exists():
        fact = f"{path} is there already."
        raise AuditError(Finding("FILE_EXISTS", fact, str(path), "give another name, or remove it."))
    with atomic(path) as temporary:
        temporary.write_text(EXAMPLE, encoding="utf-8")
