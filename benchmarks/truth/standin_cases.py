"""Cases of heat and power caps: a recorded run on a real GPU, with planted readings of its clock.

A GPU's limits are never touched, so that these cannot be run. Everything else in the recording stays as the
GPU gave it; what is planted is what NVML says on a capped GPU, by its own definitions.
"""

from __future__ import annotations

import csv
import shutil
from collections.abc import Mapping
from pathlib import Path

from benchmarks.truth.case import Case
from harness.model.analysis import Cause

RECORDING = "h200-compute-bound"
FULL_MHZ = 1980.0


POWER = ("throttle_sw_power_cap", "power_capped_s")
HEAT = ("throttle_sw_thermal",)


def capped(
    name: str, text: str, planted: Cause, by: tuple[str, ...], *, share: float = 1.0, clock: float
) -> Case:
    """Return a case of a GPU that was held down for `share` of the time, at `clock` of its highest clock."""
    reasons = {**dict.fromkeys(POWER, 0.0), **dict.fromkeys(by, share)}
    return Case(
        name,
        planted,
        workload="",
        text=text,
        device="gpu",
        recording=RECORDING,
        telemetry={**reasons, "sm_clock_mhz": FULL_MHZ * (share * clock + 1 - share)},
        lost=share * (1 - clock),
    )


STANDIN_CASES = (
    capped("power-capped", "a power cap, always, at 60 % of the clock", Cause.POWER, POWER, clock=0.6),
    capped("power-cap-mild", "a power cap, always, at 80 % of the clock", Cause.POWER, POWER, clock=0.8),
    capped("power-cap-harmless", "at its power cap, yet at full clock", Cause.COMPUTE, POWER, clock=1.0),
    capped("hot", "heat, always, at half of the clock", Cause.HEAT, HEAT, clock=0.5),
    capped("hot-mild", "heat, always, at 75 % of the clock", Cause.HEAT, HEAT, clock=0.75),
    capped("hot-moment", "heat for 2 % of the time", Cause.COMPUTE, HEAT, share=0.02, clock=0.75),
)


def plant(recorded: Path, into: Path, readings: Mapping[str, float]) -> None:
    """Copy a run folder and put `readings` in the place of what NVML gave.

    Args:
        readings: metric -> its mean over any stretch of time; a counter in seconds grows so fast.
    """
    shutil.copytree(recorded, into)
    for file in into.glob("trials/*/telemetry/nvml-gpu*.csv"):
        _rewrite(file, readings)


def _rewrite(file: Path, readings: Mapping[str, float]) -> None:
    with file.open(newline="", encoding="utf-8") as lines:
        head, *rows = csv.reader(lines)
    places = {head.index(metric): (metric, mean) for metric, mean in readings.items() if metric in head}
    for number, row in enumerate(rows):
        for place, (metric, mean) in places.items():
            if metric.endswith("_s"):
                row[place] = f"{mean * int(row[0]) / 1e9:.9f}"
            elif metric.startswith("throttle_"):
                # On so often that the mean is right, spread evenly.
                row[place] = str(int((number + 1) * mean) - int(number * mean))
            else:
                row[place] = f"{mean:g}"
    with file.open("w", newline="", encoding="utf-8") as lines:
        csv.writer(lines, lineterminator="\n").writerows([head, *rows])
