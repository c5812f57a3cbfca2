"""Makes the scripts of benchmarks/calibration importable as the package `calibration`."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
