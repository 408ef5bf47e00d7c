"""Energy of interleaved variants, held against series whose true joules are known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from harness.analysis import energy
from harness.model.run import Series, Trial, Window
from tests.builders import SECOND_NS, gpu_run
from workloads.protocol import BASELINE, TUNED

WATTS = {BASELINE: 120.0, TUNED: 400.0}
IDLE_W = 80.0
SAMPLES = 100
ROUNDS = 12
SHARED = f"{energy.GPU_COUNTER}, shared out over time by instant GPU power"


def windows(start_s: float = 5.0) -> tuple[Window, ...]:
    """Let two variants take turns, a little over a second each with a short pause between."""
    made, now = [], int(start_s * SECOND_NS)
    for index in range(ROUNDS):
        for variant, seconds in ((BASELINE, 1.03), (TUNED, 0.97)):
            end = now + int(seconds * SECOND_NS)
            made.append(
                Window(
                    variant=variant,
                    index=index,
                    start_ns=now,
                    end_ns=end,
                    steps=10,
                    samples=SAMPLES,
                    wait_ns=-1,
                )
            )
            now = end + 20_000_000
    return tuple(made)


def true_joules(t_ns: np.ndarray, measured: tuple[Window, ...]) -> np.ndarray:
    """Integrate power exactly: idle, and what a window's variant takes while it lasts."""
    joules = IDLE_W * (t_ns - t_ns[0]) / SECOND_NS
    for each in measured:
        inside_s = (np.clip(t_ns, each.start_ns, each.end_ns) - each.start_ns) / SECOND_NS
        joules = joules + (WATTS[each.variant] - IDLE_W) * inside_s
    return joules


def series(source: str, t_ns: np.ndarray, device: str = "gpu0", **columns: np.ndarray) -> Series:
    return Series(source=source, device=device, t_ns=t_ns, columns=columns)


def alternating(*, sensor: float = 1.0, counter_s: float = 1.0, device: str = "gpu0") -> Trial:
    """Give a trial whose power sensor shows `sensor` times the truth at 10 Hz; the counter is exact."""
    measured = windows()
    end_ns = measured[-1].end_ns + 3 * SECOND_NS
    random = np.random.default_rng(7)
    ticks = np.arange(0, end_ns, SECOND_NS // 10, dtype=np.int64)
    ticks = ticks + random.integers(0, 2_000_000, len(ticks))
    power = np.full(len(ticks), IDLE_W)
    for each in measured:
        power[(ticks >= each.start_ns) & (ticks <= each.end_ns)] = WATTS[each.variant]
    read = np.append(np.arange(0, end_ns, int(counter_s * SECOND_NS), dtype=np.int64), end_ns)
    return replace(
        gpu_run(trials=1).trials[1],
        device="gpu0",
        windows=measured,
        steps=(),
        telemetry=(
            series("nvml", ticks, device, power_instant_w=power * sensor),
            series("nvml_slow", read, device, energy_j=51_234.0 + true_joules(read, measured)),
        ),
    )


def energy_per_sample(trial: Trial, variant: str) -> tuple[float, str]:
    return energy.energy_per_sample(trial, (variant,))[variant]


def without(trial: Trial, source: str) -> Trial:
    return replace(trial, telemetry=tuple(each for each in trial.telemetry if each.source != source))


def expected(variant: str) -> float:
    own = [each for each in windows() if each.variant == variant]
    return (
        WATTS[variant] * sum(each.end_ns - each.start_ns for each in own) / SECOND_NS / (SAMPLES * len(own))
    )


@pytest.mark.parametrize("sensor", [0.8, 0.97, 1.0, 1.05])
@pytest.mark.parametrize("counter_s", [1.0, 2.0, 10.0])
@pytest.mark.parametrize("variant", [BASELINE, TUNED])
def test_each_of_two_interleaved_variants_gets_its_own_joules(
    variant: str, counter_s: float, sensor: float
) -> None:
    result = energy_per_sample(alternating(sensor=sensor, counter_s=counter_s), variant)
    assert result[0] == pytest.approx(expected(variant), rel=0.02)
    assert result[1] == SHARED


def test_a_counter_that_was_reset_still_counts() -> None:
    trial = alternating(sensor=0.8)
    power, counter = trial.telemetry
    reset = counter.columns["energy_j"].copy()
    reset[10:] -= reset[10]
    trial = replace(trial, telemetry=(power, replace(counter, columns={"energy_j": reset})))
    result = energy_per_sample(trial, TUNED)
    assert result[0] == pytest.approx(expected(TUNED), rel=0.02)


def test_windows_in_which_power_was_not_read_are_left_out() -> None:
    trial = alternating()
    power, counter = trial.telemetry
    lost = (power.t_ns < 9 * SECOND_NS) | (power.t_ns > 15 * SECOND_NS)
    power = series("nvml", power.t_ns[lost], power_instant_w=power.columns["power_instant_w"][lost])
    trial = replace(trial, telemetry=(power, counter))
    for variant in (BASELINE, TUNED):
        result = energy_per_sample(trial, variant)
        assert result[0] == pytest.approx(expected(variant), rel=0.02)


def test_cards_are_scaled_each_by_its_own_counter() -> None:
    each, two = alternating(sensor=0.9), alternating(sensor=1.2, device="gpu1")
    both = replace(each, device="gpu0+gpu1", telemetry=(*each.telemetry, *two.telemetry))
    result = energy_per_sample(both, TUNED)
    assert result[0] == pytest.approx(2 * expected(TUNED), rel=0.02)
