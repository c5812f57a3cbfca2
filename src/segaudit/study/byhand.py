"""Each step as a person would do it: the command of this package, and those of nnU-Net that it stands for."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from segaudit.study.plans import StudyPlan, final_masks
from segaudit.study.steps import Step, steps_of


def commands(plan: StudyPlan) -> Iterator[str]:
    """Yield a line a step, in an order in which they can be run; what nnU-Net itself would be told is a comment."""
    home = plan.home.absolute()
    network = home / "nnunet"
    for name, folder in (("raw", "raw"), ("preprocessed", "preprocessed"), ("results", "results")):
        yield f"# export nnUNet_{name}={shlex.quote(str(network / folder))}"
    for step in steps_of(plan):
        yield shlex.join(["segaudit", "study", "step", str(home), step.name])
        yield from (f"#   {line}" for line in _native(plan, step, home))


def _native(plan: StudyPlan, step: Step, home: Path) -> Iterator[str]:
    network = plan.file.network
    if step.verb == "plan":
        number = _number(plan.regime(plan.plan_from).dataset)
        yield f"nnUNetv2_extract_fingerprint -d {number}"
        yield f"nnUNetv2_plan_experiment -d {number} -pl {network.planner}"
    if not step.regime:
        return
    regime = plan.regime(step.regime)
    number, plans = _number(regime.dataset), plans_name(network.planner)
    outputs = home / "predictions" / regime.name
    if step.verb == "preprocess":
        source = _number(plan.regime(plan.plan_from).dataset)
        if source != number:
            yield f"nnUNetv2_move_plans_between_datasets -s {source} -t {number} -sp {plans} -tp {plans}"
        yield f"nnUNetv2_preprocess -d {number} -plans_name {plans} -c {' '.join(regime.configurations)}"
    elif step.verb == "train":
        device = plan.file.machine.device
        yield (
            f"nnUNetv2_train {number} {step.configuration} {step.fold} -tr {network.trainer} -p {plans}"
            f" -device {device} --npz --c"
        )
    elif step.verb == "predict":
        yield (
            f"nnUNetv2_predict -d {number} -c {step.configuration} -f {' '.join(regime.folds)} -tr {network.trainer}"
            f" -p {plans} --save_probabilities -i IMAGES -o {outputs / step.configuration}"
        )
    elif step.verb == "ensemble":
        folders = " ".join(str(outputs / c) for c in regime.configurations)
        yield f"nnUNetv2_ensemble -i {folders} -o {outputs / 'ensemble'}"
    elif step.verb == "clean" and regime.name in plan.file.clean_up:
        yield "keep the largest connected component of the whole foreground:"
        yield f"nnUNetv2_apply_postprocessing -i {outputs / 'ensemble'} -o {final_masks(home, regime.name)}"


def plans_name(planner: str) -> str:
    """Return the name under which a planner of nnU-Net writes its plans."""
    known = {
        "ExperimentPlanner": "nnUNetPlans",
        "nnUNetPlannerResEncM": "nnUNetResEncUNetMPlans",
        "nnUNetPlannerResEncL": "nnUNetResEncUNetLPlans",
        "nnUNetPlannerResEncXL": "nnUNetResEncUNetXLPlans",
    }
    return known.get(planner, "PLANS")


def _number(dataset: str) -> str:
    return dataset.removeprefix("Dataset")[:3]
