"""Synthetic cases of thermal and power limits: an H200 recording with the NVML readings of a capped GPU.

They cannot be run because the benchmark never changes GPU settings. All other recorded data is unchanged; the
planted readings follow NVML's definitions.
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
    """Return a case of a GPU throttled to `clock` times its maximum clock for `share` of the time."""
    reasons = {**dict.fromkeys(POWER, 0.0), **dict.fromkeys(by, share)}
    return Case(
        name,
        planted,
        script="",
        text=text,
        device="gpu",
        recording=RECORDING,
        telemetry={**reasons, "sm_clock_mhz": FULL_MHZ * (share * clock + 1 - share)},
        lost=share * (1 - clock),
    )


STANDIN_CASES = (
    capped("power-capped", "power cap, always at 60 % of the clock", Cause.POWER, POWER, clock=0.6),
    capped("power-cap-mild", "power cap, always at 80 % of the clock", Cause.POWER, POWER, clock=0.8),
    capped("power-cap-harmless", "power cap reached, but full clock", Cause.COMPUTE, POWER, clock=1.0),
    capped("hot", "thermal limit, always at 50 % of the clock", Cause.HEAT, HEAT, clock=0.5),
    capped("hot-mild", "thermal limit, always at 75 % of the clock", Cause.HEAT, HEAT, clock=0.75),
    capped("hot-moment", "thermal limit for 2 % of the time", Cause.COMPUTE, HEAT, share=0.02, clock=0.75),
)


def plant(recorded: Path, into: Path, readings: Mapping[str, float]) -> None:
    """Copy a run folder and replace NVML metrics by `readings`.

    Args:
        readings: metric -> mean; for counters in seconds, the rate of growth.
    """
    shutil.copytree(recorded, into)
    for file in into.glob("trials/*/telemetry/nvml-gpu*.csv"):
        _rewrite(file, readings)


def _rewrite(file: Path, readings: Mapping[str, float]) -> None:
    with file.open(newline="", encoding="utf-8") as lines:
        head, *rows = csv.reader(lines)
    columns = {head.index(metric): (metric, mean) for metric, mean in readings.items() if metric in head}
    for number, row in enumerate(rows):
        for column, (metric, mean) in columns.items():
            if metric.endswith("_s"):
                row[column] = f"{mean * int(row[0]) / 1e9:.9f}"
            elif metric.startswith("throttle_"):
                # Evenly spread ones with the right mean.
                row[column] = str(int((number + 1) * mean) - int(number * mean))
            else:
                row[column] = f"{mean:g}"
    with file.open("w", newline="", encoding="utf-8") as lines:
        csv.writer(lines, lineterminator="\n").writerows([head, *rows])
