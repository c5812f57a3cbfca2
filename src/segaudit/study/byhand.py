"""Each step as a person would do it: the command of this package, and those of nnU-Net that it stands for."""

from __future__ import annotations

import importlib.util
import shlex
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from segaudit.errors import AuditError
from segaudit.study.plans import StudyPlan
from segaudit.study.proofs import NNUNET
from segaudit.study.regimes import final_masks
from segaudit.study.steps import Step, steps_of

_KEEP = (
    'python -c "import pickle; from nnunetv2.postprocessing.remove_connected_components import'
    " remove_all_but_largest_component_from_segmentation as keep;"
    " pickle.dump(([keep], [{{'labels_or_regions': {foreground}}}]), open('largest.pkl', 'wb'))\""
)


def commands(plan: StudyPlan) -> Iterator[str]:
    """Yield a line a step, in an order in which they can be run; what nnU-Net itself would be told is a comment."""
    home = plan.home.absolute()
    for name in ("raw", "preprocessed", "results"):
        yield f"# export nnUNet_{name}={shlex.quote(str(home / NNUNET / name))}"
    if folder := _folder_of(plan.file.network.trainer):
        yield f"# export nnUNet_extTrainer={shlex.quote(folder)}"
    yield "# IMAGES: a folder of a regime's cases to predict, as CASE_0000.nii.gz"
    yield "# begins the study, and does no step of it:"
    yield shlex.join(["segaudit", "study", "run", str(plan.path), "--snakemake=--dry-run"])
    for step in steps_of(plan):
        yield shlex.join(["segaudit", "study", "step", str(home), step.name])
        yield from (f"#   {line}" for line in _native(plan, step, home))


def _native(plan: StudyPlan, step: Step, home: Path) -> Iterator[str]:
    network = plan.file.network
    if step.verb == "plan":
        number = _number(plan.regime(plan.plan_from).dataset)
        yield f"nnUNetv2_extract_fingerprint -d {number}"
        if ":" in network.planner:
            yield f"nnU-Net's own program finds no planner outside of nnU-Net: {network.planner}"
        else:
            yield f"nnUNetv2_plan_experiment -d {number} -pl {network.planner}"
    if not step.regime:
        return
    regime = plan.regime(step.regime)
    number, plans, trainer = _number(regime.dataset), _plans(network.planner), network.trainer.rpartition(":")[2]
    outputs = home / "predictions" / regime.name
    if step.verb == "preprocess":
        source = _number(plan.regime(plan.plan_from).dataset)
        if source != number:
            yield f"nnUNetv2_move_plans_between_datasets -s {source} -t {number} -sp {plans} -tp {plans}"
        yield f"nnUNetv2_preprocess -d {number} -plans_name {plans} -c {' '.join(regime.configurations)}"
    elif step.verb == "train":
        device = plan.file.machine.device
        yield (
            f"nnUNetv2_train {number} {step.configuration} {step.fold} -tr {trainer} -p {plans}"
            f" -device {device} --npz --c"
        )
    elif step.verb == "predict":
        yield (
            f"nnUNetv2_predict -d {number} -c {step.configuration} -f {' '.join(regime.folds)} -tr {trainer}"
            f" -p {plans} --save_probabilities -i IMAGES -o {outputs / step.configuration}"
        )
    elif step.verb == "ensemble":
        folders = " ".join(str(outputs / c) for c in regime.configurations)
        yield f"nnUNetv2_ensemble -i {folders} -o {outputs / 'ensemble'}"
    elif step.verb == "clean" and regime.name in plan.file.clean_up:
        foreground = list(range(1, len(plan.cohort.labels) + 1))
        yield _KEEP.format(foreground=foreground)
        yield (
            f"nnUNetv2_apply_postprocessing -i {outputs / 'ensemble'} -o {final_masks(home, regime.name)}"
            " -pp_pkl_file largest.pkl"
        )


def _folder_of(trainer: str) -> str:
    """Return the folder in which nnU-Net finds a trainer that is not its own; empty for its own."""
    module = trainer.rpartition(":")[0]
    with suppress(ImportError, ValueError):
        found = importlib.util.find_spec(module) if module else None
        return str(Path(found.origin).parent) if found and found.origin else ""
    return ""


def _plans(planner: str) -> str:
    """Return the name under which a planner writes its plans: known for nnU-Net's own without importing it."""
    known = {
        "ExperimentPlanner": "nnUNetPlans",
        "nnUNetPlannerResEncM": "nnUNetResEncUNetMPlans",
        "nnUNetPlannerResEncL": "nnUNetResEncUNetLPlans",
        "nnUNetPlannerResEncXL": "nnUNetResEncUNetXLPlans",
    }
    if planner in known:
        return known[planner]
    from segaudit.study.classes import plans_name

    try:
        return plans_name(planner)
    except AuditError:  # a plan can be shown where nothing is installed
        return "PLANS"


def _number(dataset: str) -> str:
    return dataset.removeprefix("Dataset")[:3]
