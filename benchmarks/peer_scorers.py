"""One function a scorer: two files in, Dice and HD95 of both structures out. Run by peers.py, each in its own process.

Each function reads the files and finds the values as its package's users do, through its documented door; where a
package has no reader of its own, nibabel reads the stored bytes (the cheapest way there is). It imports what it needs
when it is made, so that only the package under test must be there.

    python peer_scorers.py NAME     # requests on stdin, one JSON line each: [prediction, reference]
"""

from __future__ import annotations

import contextlib
import json
import statistics
import sys
import time
import warnings
from pathlib import Path

LABELS = {"body": 1, "disc": 2}
PACKAGES = {
    "surface-distance": ["surface-distance", "nibabel"],
    "mikan-rs": ["mikan-rs", "SimpleITK"],
    "MONAI": ["torch==2.13.0", "monai", "nibabel"],
    "MetricsReloaded": ["MetricsReloaded @ git+https://github.com/Project-MONAI/MetricsReloaded", "nibabel"],
    "SimpleITK": ["SimpleITK"],
    "medpy": ["medpy"],
    "seg-metrics": ["seg-metrics"],
    "panoptica": ["panoptica", "nibabel"],
    "miseval": ["miseval", "nibabel"],
    "nnU-Net": ["torch==2.13.0", "nnunetv2"],
}


def segaudit():
    from segaudit.metrics import METRICS, measure, value
    from segaudit.volumes import read_labels

    labels = {name: (number,) for name, number in LABELS.items()}

    def score(prediction, reference):
        ours, theirs = read_labels(Path(prediction)), read_labels(Path(reference))
        spacing_mm = theirs.grid.spacing_mm
        found = measure(ours.labels, theirs.labels, labels, labels, spacing_mm, components=False).values()
        return [[value(METRICS[name], measured)[0] for name in ("dice", "hd95")] for measured in found]

    return score


def segaudit_case():
    """What `segaudit score` does for a case: grids compared, values outside the labels and pieces counted, too."""
    from segaudit.metrics import METRICS, value
    from segaudit.scores.tasks import Source, Task, measure_case

    labels = {name: (number,) for name, number in LABELS.items()}

    def score(prediction, reference):
        pair = (Source("model", prediction, labels, None), Source("ruler", reference, labels, None))
        done = measure_case(Task("case", (pair,), ("dice", "hd95", "components_prediction")))
        found = done.pairs["model", "ruler"].measured.values()
        return [[value(METRICS[name], measured)[0] for name in ("dice", "hd95")] for measured in found]

    return score


def limit():
    """Inflate both files and touch each voxel once; no values."""
    import numpy as np
    from isal import isal_zlib

    import segaudit.metrics  # noqa: F401  # freed memory is kept, as there

    def touch(prediction, reference):
        for path in (prediction, reference):
            np.frombuffer(isal_zlib.decompress(Path(path).read_bytes(), 31), np.uint8).max()
        return []

    return touch


def _by_nibabel(path):
    import nibabel
    import numpy as np

    image = nibabel.load(path)
    return np.asarray(image.dataobj), tuple(map(float, image.header.get_zooms()))


def surface_distance():
    from surface_distance import metrics

    def score(prediction, reference):
        (ours, _), (theirs, spacing) = _by_nibabel(prediction), _by_nibabel(reference)
        values = []
        for number in LABELS.values():
            p, r = ours == number, theirs == number
            distances = metrics.compute_surface_distances(r, p, spacing)
            values.append([metrics.compute_dice_coefficient(r, p), metrics.compute_robust_hausdorff(distances, 95)])
        return values

    return score


def mikan_rs():
    import mikan
    import SimpleITK

    def score(prediction, reference):
        ours, theirs = (SimpleITK.ReadImage(path, SimpleITK.sitkUInt8) for path in (prediction, reference))
        found = mikan.Evaluator(theirs, ours).labels(list(LABELS.values())).metrics(["dice", "hd95"])
        return [[found[str(number)]["dice"], found[str(number)]["hd95"]] for number in LABELS.values()]

    return score


def monai():
    import torch
    from monai.metrics import compute_dice, compute_hausdorff_distance

    torch.set_num_threads(1)

    def one_hot(array):
        return torch.stack([torch.from_numpy(array == number) for number in (0, *LABELS.values())])[None].float()

    def score(prediction, reference):
        (ours, _), (theirs, spacing) = _by_nibabel(prediction), _by_nibabel(reference)
        p, r = one_hot(ours), one_hot(theirs)
        dice = compute_dice(p, r, include_background=False)[0].tolist()
        hd95 = compute_hausdorff_distance(p, r, include_background=False, percentile=95, spacing=list(spacing))[0]
        return list(zip(dice, hd95.tolist(), strict=True))

    return score


def metrics_reloaded():
    from MetricsReloaded.metrics.pairwise_measures import BinaryPairwiseMeasures

    def score(prediction, reference):
        (ours, _), (theirs, spacing) = _by_nibabel(prediction), _by_nibabel(reference)
        values = []
        for number in LABELS.values():
            pair = BinaryPairwiseMeasures(ours == number, theirs == number, pixdim=list(spacing))
            values.append([pair.dsc(), pair.measured_hausdorff_distance_perc()])
        return values

    return score


def simple_itk():
    """The recipe of its notebooks: distance maps of both masks, read at the other's contour."""
    import numpy as np
    import SimpleITK as sitk

    def directed(of, to):
        distances = sitk.Abs(sitk.SignedMaurerDistanceMap(to, squaredDistance=False, useImageSpacing=True))
        contour = sitk.GetArrayViewFromImage(sitk.LabelContour(of)) == 1
        return np.percentile(sitk.GetArrayViewFromImage(distances)[contour], 95)

    def score(prediction, reference):
        ours, theirs = sitk.ReadImage(prediction), sitk.ReadImage(reference)
        overlap = sitk.LabelOverlapMeasuresImageFilter()
        overlap.Execute(theirs, ours)
        values = []
        for number in LABELS.values():
            p, r = ours == number, theirs == number
            values.append([overlap.GetDiceCoefficient(number), max(directed(p, r), directed(r, p))])
        return values

    return score


def medpy():
    from medpy.io import load
    from medpy.metric import binary

    def score(prediction, reference):
        (ours, _), (theirs, header) = load(prediction), load(reference)
        values = []
        for number in LABELS.values():
            p, r = ours == number, theirs == number
            values.append([binary.dc(p, r), binary.hd95(p, r, voxelspacing=header.get_voxel_spacing())])
        return values

    return score


def seg_metrics():
    from seg_metrics.seg_metrics import write_metrics

    def score(prediction, reference):
        found = write_metrics(list(LABELS.values()), reference, prediction, metrics=["dice", "hd95"])
        found = found[0] if isinstance(found, list) else found
        return list(zip(found["dice"], found["hd95"], strict=True))

    return score


def panoptica():
    from panoptica import Metric

    def score(prediction, reference):
        (ours, _), (theirs, spacing) = _by_nibabel(prediction), _by_nibabel(reference)
        values = []
        for number in LABELS.values():
            dice = Metric.DSC(theirs, ours, number, number)
            values.append([dice, Metric.HD95(theirs, ours, number, number, voxelspacing=spacing)])
        return values

    return score


def miseval():
    """It has no HD95; its Hausdorff distance is the largest one, in voxels."""
    import miseval as package

    def score(prediction, reference):
        (ours, _), (theirs, _) = _by_nibabel(prediction), _by_nibabel(reference)
        found = [package.evaluate(theirs, ours, metric, multi_class=True, n_classes=3)[1:] for metric in ("DSC", "AHD")]
        return list(zip(*found, strict=True))

    return score


def nnunet():
    """Its evaluator: Dice and counts, no distance."""
    from nnunetv2.evaluation.evaluate_predictions import compute_metrics
    from nnunetv2.imageio.simpleitk_reader_writer import SimpleITKIO

    reader = SimpleITKIO()

    def score(prediction, reference):
        found = compute_metrics(reference, prediction, reader, list(LABELS.values()))["metrics"]
        return [[found[number]["Dice"], float("nan")] for number in LABELS.values()]

    return score


SCORERS = {
    "segaudit": segaudit,
    "segaudit score": segaudit_case,
    "limit": limit,
    "surface-distance": surface_distance,
    "mikan-rs": mikan_rs,
    "MONAI": monai,
    "MetricsReloaded": metrics_reloaded,
    "SimpleITK": simple_itk,
    "medpy": medpy,
    "seg-metrics": seg_metrics,
    "panoptica": panoptica,
    "miseval": miseval,
    "nnU-Net": nnunet,
}


TURN_S = 0.5


def peak_mib():
    """Return the peak of this process alone (getrusage tells that of its parent, where it was larger)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def timed(score, prediction, reference):
    """Return the CPU time of a case in ms (all threads of this process) and its values.

    It is scored until half a second is over, and the median counts: between its turns a process goes cold, and the
    first of several calls, which pays for that, is left out.
    """
    times, values = [], []
    end = time.perf_counter() + TURN_S
    while not times or time.perf_counter() < end:
        start = time.process_time()
        values = score(prediction, reference)
        times.append(1e3 * (time.process_time() - start))
    return statistics.median(times[1:] or times), values


def serve(name, answers):
    """Answer with the peak memory in MiB at the start; then each request with time, peak memory and values."""
    score = SCORERS[name]()
    print(peak_mib(), file=answers, flush=True)
    for line in sys.stdin:
        prediction, reference = json.loads(line)
        took, values = timed(score, prediction, reference)
        values = [[float(dice), float(hd95)] for dice, hd95 in values]
        print(json.dumps([took, peak_mib(), values]), file=answers, flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with contextlib.redirect_stdout(sys.stderr):  # some packages print
        serve(sys.argv[1], sys.__stdout__)
