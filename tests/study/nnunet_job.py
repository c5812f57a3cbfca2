"""What the tests of trainings run in a process of its own: `python -m nnunet_job JSON`; its last line is the result."""

import json
import os
import signal
import sys
from pathlib import Path

from segaudit.errors import AuditError
from segaudit.study import nnunet, resuming
from segaudit.study.nnunet import Settings

TINY = {"planner": "segaudit.study.networks:MiniPlanner", "trainer": "segaudit.study.networks:TinyTrainer"}


def settings(**changes):
    return Settings(**{**TINY, "device": "cpu", "seed": 7, "pools": "threads", **changes})


def killed(epoch):
    """Let the next training kill its process in an epoch, after its second step."""
    from segaudit.study.networks import TinyTrainer

    step, taken = TinyTrainer.train_step, []

    def train_step(self, batch):
        done = step(self, batch)
        taken.append(self.current_epoch)
        if taken.count(epoch) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    TinyTrainer.train_step = train_step


def killed_predicting():
    """Let the next prediction kill its process at its second image."""
    from nnunetv2.inference.predict_from_raw_data import nnUNetPredictor

    foresee, seen = nnUNetPredictor.predict_logits_from_preprocessed_data, []

    def predict(self, data):
        seen.append(1)
        if len(seen) == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return foresee(self, data)

    nnUNetPredictor.predict_logits_from_preprocessed_data = predict


def full(at):
    """Let the disk be full when a checkpoint is written for the nth time."""
    import torch

    save, saved = torch.save, []

    def without_room(held, path):
        saved.append(path)
        if len(saved) == at:
            Path(path).write_bytes(b"half")
            raise OSError(28, "No space left on device", str(path))
        save(held, path)

    torch.save = without_room


def main(asked):
    home, options = Path(asked["home"]), settings(**asked.get("settings", {}))
    if "killed" in asked:
        killed(asked["killed"])
    if "killed_predicting" in asked:
        killed_predicting()
    if "full" in asked:
        full(asked["full"])
    told = {}
    for name, *given in asked["calls"]:
        values = list(given)
        if name in ("plan", "share_plan", "preprocess", "train", "predict", "same_plan", "training_faults"):
            values = [home, *values, options]
        if name == "predict":
            values[4] = {case: Path(path) for case, path in values[4].items()}
            values[5] = Path(values[5])
        if name == "ensemble":
            values = [[Path(one) for one in values[0]], Path(values[1]), options]
        if name == "clean_up":
            values = [Path(values[0]), Path(values[1]), values[2], options]
        done = (EXTRAS.get(name) or getattr(nnunet, name))(*values)
        told[name] = done.to_dict("list") if hasattr(done, "to_dict") else done
    return told


def weights(path):
    """Return a digest of the weights of a checkpoint, or why it does not load."""
    import hashlib

    held = resuming.read_checkpoint(Path(path))
    if isinstance(held, str):
        return held
    sha = hashlib.sha256()
    for name, values in sorted(held["network_weights"].items()):
        sha.update(name.encode() + values.numpy().tobytes())
    return sha.hexdigest()


def classes(*names):
    """Return the classes found by name, and whether torchvision had to be imported for them."""
    from segaudit.study.classes import trainer_class

    return [[trainer_class(name).__name__, "torchvision" in sys.modules] for name in names]


EXTRAS = {"weights": weights, "classes": classes}

if __name__ == "__main__":
    try:
        result = main(json.loads(sys.argv[1]))
    except AuditError as error:
        result = {"codes": [finding.code for finding in error.findings], "text": str(error)}
    sys.stdout.write(f"\n{json.dumps(result, default=str)}\n")
