"""Clocks that were lowered, in any variant."""

from dataclasses import replace

import numpy as np
import pytest

from harness.analysis import analyse
from harness.model.analysis import Cause, CaveatKind
from harness.model.run import Run
from tests import builders


def lowered(share: float, column: str, mhz: float) -> Run:
    """Return a run whose GPU was lowered to `mhz` by a reason that NVML gave for a share of the readings."""
    run = builders.gpu_run(trials=1)

    def planted(series):
        if series.source != "nvml":
            return series
        active = np.arange(len(series.t_ns)) % 100 < 100 * share
        return replace(series, columns={
            **series.columns, column: active.astype(float), "sm_clock_mhz": np.full(len(series.t_ns), mhz),
        })  # fmt: skip

    trials = (replace(trial, telemetry=tuple(map(planted, trial.telemetry))) for trial in run.trials)
    return replace(run, trials=tuple(trials))


@pytest.mark.parametrize(
    ("column", "cause"),
    [
        ("throttle_sw_power_cap", Cause.POWER),
        ("throttle_sw_thermal", Cause.HEAT),
        ("throttle_hw_thermal", Cause.HEAT),
        ("throttle_hw_slowdown", Cause.HARDWARE),
    ],
)
def test_every_variant_says_what_lowered_its_clock(column, cause):
    analysis = analyse(lowered(1.0, column, 1200.0))
    slowed = {each.variant: each for each in analysis.clocks if each.device == "gpu0"}
    assert set(slowed) == set(builders.LAUNCH_BOUND)
    for each in slowed.values():
        assert each.slowed == {cause: 1.0}
        assert each.share == pytest.approx(1200 / 1980)
    said = [each.variant for each in analysis.caveats if each.kind is CaveatKind.THROTTLED]
    assert set(said) == set(builders.LAUNCH_BOUND)


@pytest.mark.parametrize(
    ("share", "column", "mhz"),
    [(0.0, "throttle_sw_thermal", 1200.0), (1.0, "throttle_sw_power_cap", 1975.0)],
)
def test_a_reason_without_loss_is_not_said(share, column, mhz):
    analysis = analyse(lowered(share, column, mhz))
    assert not any(each.slowed for each in analysis.clocks)
    assert CaveatKind.THROTTLED not in {each.kind for each in analysis.caveats}
