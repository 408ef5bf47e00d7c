"""Cold and sustained speed under a load without pause."""

import numpy as np
import pytest

from harness.analysis import analyse
from harness.cli.shared_options import _PARSERS
from harness.defaults import PROFILES
from harness.errors import UsageError
from harness.model.run import Options
from harness.model.workload import Workload
from harness.run.plan import soak_trials
from harness.run.trial_container import spec_for
from reports import machine
from reports.page import figures_of
from tests import builders
from workloads.protocol import SOAK


def test_a_device_that_heats_up_is_told_from_its_cold_self():
    speeds = np.concatenate([np.full(40, 700.0), np.linspace(700, 600, 40), np.full(120, 600.0)])
    analysis = analyse(builders.soaked_run(speeds))
    (result,) = analysis.endurance
    assert result.device == "gpu0"
    assert result.cold == pytest.approx(700e12, rel=0.01)
    assert result.sustained == pytest.approx(600e12, rel=0.01)
    assert 65 < result.steady_s < 80
    assert result.telemetry["power_instant_w"] == pytest.approx(690, abs=3)
    assert set(result.telemetry) == {"sm_clock_mhz", "power_instant_w", "temperature_c"}
    assert "(86\u202f%)" in machine.sustained(result)
    assert figures_of(analysis)["figure-soak-gpu0"].soak


@pytest.mark.parametrize(
    ("speeds", "steady"),
    [(np.full(60, 500.0), True), (np.linspace(700, 300, 60), False)],
)
def test_steady_from_the_start_or_never(speeds, steady):
    (result,) = analyse(builders.soaked_run(speeds)).endurance
    assert (result.steady_s == 0) is steady
    assert (result.steady_s is None) is not steady


def test_too_short_a_load_says_nothing():
    assert analyse(builders.soaked_run(np.full(8, 500.0))).endurance == ()


def test_each_device_is_saturated_alone_for_so_long():
    planned = soak_trials(("cpu", "gpu0", "gpu0+gpu1"), 600.0)
    assert [(each.device, each.variants) for each in planned] == [
        ("cpu", (SOAK,)), ("gpu0", (SOAK,)), ("gpu1", (SOAK,)),
    ]  # fmt: skip
    spec = spec_for(planned[0], Workload(name="any"), PROFILES["quick"], Options(), folder="", data={})
    assert (spec.soak_s, spec.windows) == (600.0, 600)


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("10m", 600), ("1h", 3600), ("45", 45)])
def test_times_have_units(text, seconds):
    assert _PARSERS["soak_s"][1](text) == seconds


@pytest.mark.parametrize("text", ["", "m", "5s", "ten", "-1m", "nan", "99h"])
def test_other_times_are_refused(text):
    with pytest.raises(UsageError, match="--soak"):
        _PARSERS["soak_s"][1](text)
