"""The meter on a simulated clock that only advances during steps and synchronisations."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads.driver.timing import BLOCK_NS, BUFFERED_CALLS, LossError, Meter
from workloads.protocol import EventWriter, Spec, read_events

MS = 1_000_000
spec_of = partial(Spec, scripts={})


class Machine:
    """A device that runs steps asynchronously until `synchronise` waits for it."""

    def __init__(self, host_ns: int | Callable[[Machine], int], device_ns: int = 0) -> None:
        self.now = self.busy_until = self.steps = self.syncs = 0
        self._host_ns = host_ns
        self._device_ns = device_ns

    @property
    def host_ns(self) -> int:
        return self._host_ns(self) if callable(self._host_ns) else self._host_ns

    def clock(self) -> int:
        return self.now

    def step(self) -> None:
        self.now += self.host_ns
        self.steps += 1
        self.busy_until = max(self.busy_until, self.now) + self._device_ns

    def synchronise(self) -> None:
        self.syncs += 1
        self.now = max(self.now, self.busy_until)


@dataclass
class Measured:
    meter: Meter
    events: Sequence[dict[str, Any]]
    trained_s: float

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["kind"] == kind]

    @property
    def windows(self) -> list[dict[str, Any]]:
        return self.of("window")

    @property
    def warm_up_ns(self) -> int:
        return next(length(event) for event in self.of("phase") if event["name"] == "warm-up")


def measure(folder, machine, spec, *, loss=None, full=0, wait_ns=1, **options) -> Measured:
    path = folder / f"events-{len(list(folder.iterdir()))}"
    with path.open("w") as file:
        meter = Meter("baseline", spec=spec, events=EventWriter(file), synchronise=machine.synchronise, full=bool(full),
                      clock=machine.clock, **options)  # fmt: skip
        meter.loss = loss
        meter.begin()
        for _ in range(full or 1_000_000):
            machine.step()
            if not meter.tick(1, 32, wait_ns):
                break
        trained_s = meter.finish() if full else 0.0
    with path.open() as lines:
        return Measured(meter, list(read_events(lines)), trained_s)


def length(event: dict[str, Any]) -> int:
    return event["end_ns"] - event["start_ns"]


def test_phases_are_in_order_and_windows_have_their_full_length(tmp_path):
    done = measure(tmp_path, Machine(4 * MS), spec_of(window_s=1.0, windows=3))
    assert [event["name"] for event in done.of("phase")] == ["first-step", "warm-up", *["steady"] * 3]
    for window in done.windows:
        assert (length(window), window["samples"]) == (10**9, 8000)
        assert window["steps"] == window["wait_ns"] == 250
    assert done.meter.samples == 32 * done.meter.steps
    assert not done.of("warning")
    # The host launches a 20 ms step in 1 ms, so its clock alone would report 20 times the speed.
    machine = Machine(MS, 20 * MS)
    for window in measure(tmp_path, machine, spec_of(window_s=1.0, windows=2)).windows:
        assert length(window) / window["steps"] == pytest.approx(20 * MS, rel=0.05)
        assert length(window) < 1.2e9
    assert machine.syncs > 4


@given(before_ms=st.integers(1, 150), after_ms=st.integers(1, 150))
def test_windows_keep_their_length_when_the_step_time_changes(tmp_path_factory, before_ms, after_ms):
    machine = Machine(lambda machine: (before_ms if machine.now <= 3 * 10**9 else after_ms) * MS)
    spec = spec_of(window_s=1.0, windows=6)
    for window in measure(tmp_path_factory.mktemp("changing"), machine, spec, wait_ns=-1).windows:
        assert 0.95e9 <= length(window) <= 1.3e9
        assert window["wait_ns"] == -1


@pytest.mark.parametrize(("every", "pause_ms"), [(100, 800), (100, 60), (40, 300), (7, 100)])
def test_windows_have_their_share_of_rare_long_steps(tmp_path, every, pause_ms):
    machine = Machine(lambda machine: (pause_ms + 1 if machine.steps % every == every - 1 else 1) * MS)
    done = measure(tmp_path, machine, spec_of(window_s=1.0, windows=3, warmup_s=0.6))
    whole_ms = 1 + pause_ms / every
    for window in done.windows:
        assert length(window) / window["steps"] / MS == pytest.approx(whole_ms, rel=0.02)
        assert length(window) <= 2.1e9


def test_a_long_step_of_an_asynchronous_host_makes_no_window_much_longer(tmp_path):
    """The host is never late again, while the device takes a hundred times as long as it."""
    machine = Machine(lambda machine: (300 if machine.steps == 9 else 1) * MS, 100 * MS)
    done = measure(tmp_path, machine, spec_of(window_s=1.0, windows=3, warmup_s=0.6))
    assert all(length(window) <= 2.5e9 for window in done.windows)


@pytest.mark.parametrize(("variant_s", "windows"), [(4.5, 3), (0.1, 1)])
def test_a_variant_past_its_time_limit_starts_no_further_window(tmp_path, variant_s, windows):
    spec = spec_of(window_s=1.0, windows=9, warmup_s=2.0, variant_s=variant_s)
    assert len(measure(tmp_path, Machine(100 * MS), spec).windows) == windows


def test_warm_up_lasts_until_the_step_time_has_settled(tmp_path):
    machine = Machine(lambda machine: max(5 * MS, 50 * MS - machine.steps * MS // 2))
    done = measure(tmp_path, machine, spec_of(window_s=0.1, warmup_s=60, windows=1))
    assert done.warm_up_ns >= 3 * BLOCK_NS
    assert machine.host_ns < 7 * MS
    assert not done.of("warning")
    unsettled = Machine(lambda machine: 5 * MS * (1 + machine.syncs % 2))
    done = measure(tmp_path, unsettled, spec_of(window_s=0.1, warmup_s=2, windows=1))
    assert len(done.of("warning")) == 1


@pytest.mark.parametrize("ready", [4, 14])
def test_warm_up_uses_up_buffered_batches(tmp_path, ready):
    machine = Machine(lambda machine: MS if machine.steps < ready else 80 * MS)
    done = measure(tmp_path, machine, spec_of(window_s=0.4, warmup_s=3.0))
    assert {length(window) // window["steps"] for window in done.windows} == {80 * MS}
    assert done.warm_up_ns >= (BUFFERED_CALLS - ready) * 80 * MS


def test_a_non_finite_loss_ends_the_variant(tmp_path):
    losses = iter([2.3, 2.2, float("nan")])
    with pytest.raises(LossError, match="loss is nan after"):
        measure(tmp_path, Machine(MS), spec_of(steps=10, windows=5), loss=lambda: next(losses))
    # Where the script itself would have ended before.
    losses = iter([2.3, float("nan")])
    meters = {"loss": lambda: next(losses), "whole_samples": 9}
    done = measure(tmp_path, Machine(MS), spec_of(steps=10, windows=5), **meters)
    (warning,) = done.of("warning")
    assert "longer here than in the script" in warning["message"]
    assert len(done.windows) == 5
    readings = iter([2.5, 1.5, None])  # a window that ends with an epoch has no loss
    spec = spec_of(steps=2, warmup_s=0.1, windows=2)
    measure(tmp_path, Machine(100 * MS), spec, loss=lambda: next(readings))
    assert next(readings, "all read") == "all read"


@pytest.mark.parametrize(
    ("machine", "spec", "steps"),
    [
        (Machine(MS, 3 * MS), spec_of(steps=7, warmup_s=0.1), [7, 7, 7]),
        # The clock ends the windows of a slow model.
        (Machine(400 * MS), spec_of(steps=8, window_s=0.1, warmup_s=0.1, windows=2), [3, 3]),
    ],
)
def test_windows_with_a_fixed_number_of_steps(tmp_path, machine, spec, steps):
    done = measure(tmp_path, machine, spec)
    assert [window["steps"] for window in done.windows] == steps
    assert [len(event["step_ns"]) for event in done.of("steps")] == steps


def test_a_whole_training_has_consecutive_windows_and_is_timed_from_its_first_step(tmp_path):
    done = measure(tmp_path, Machine(10 * MS), spec_of(window_s=1), full=450)
    assert done.trained_s == pytest.approx(4.5)
    assert done.meter.steps == 450
    assert [window["index"] for window in done.windows] == [0, 1, 2, 3]
    assert all(a["end_ns"] == b["start_ns"] for a, b in itertools.pairwise(done.windows))
    steady = [(event["start_ns"], event["end_ns"]) for event in done.of("phase") if event["name"] == "steady"]
    assert steady == [(10 * MS, 4500 * MS)]
    short = measure(tmp_path, Machine(10 * MS), spec_of(window_s=1), full=40)
    (window,) = short.windows
    assert (window["steps"], window["samples"], length(window)) == (39, 39 * 32, 390 * MS)
    assert short.trained_s == pytest.approx(0.4)


@pytest.mark.parametrize(("hours", "ends"), [(2, False), (4, True)])
def test_a_whole_training_beyond_its_time_limit_is_measured_in_windows(tmp_path, hours, ends):
    """10 ms per step of 32 samples is 3,200 samples/s."""
    spec = spec_of(window_s=1, warmup_s=1, windows=2, whole_s=hours * 3600)
    done = measure(tmp_path, Machine(10 * MS), spec, full=1200, whole_samples=3200 * 3 * 3600)
    assert done.meter.full is ends
    assert [window["index"] for window in done.windows] == list(range(11 if ends else 5))
    assert len(done.of("warning")) == (0 if ends else 1)
