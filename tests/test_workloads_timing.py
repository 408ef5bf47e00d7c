"""The meter, on a clock that only moves when a step or a synchronisation takes time."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from workloads.protocol import EventWriter, Spec, read_events
from workloads.timing import BLOCK_NS, BUFFERED_CALLS, LossError, Meter, settled

MS = 1_000_000


class Machine:
    """A device that runs steps behind the host's back and is waited for by `synchronise`."""

    def __init__(self, *, host_ns: int, device_ns: int) -> None:
        self.now = 0
        self.busy_until = 0
        self.host_ns = host_ns
        self.device_ns = device_ns
        self.syncs = 0

    def clock(self) -> int:
        return self.now

    def step(self) -> None:
        self.now += self.host_ns
        self.busy_until = max(self.busy_until, self.now) + self.device_ns

    def synchronise(self) -> None:
        self.syncs += 1
        self.now = max(self.now, self.busy_until)


def measure(path: Path, machine: Machine, *, spec: Spec, loss=None, full: int = 0, wait_ns=1, **options):
    """Run a variant of 32 samples a step until the meter stops it; return its events."""
    with EventWriter(path) as events:
        meter = Meter(
            "baseline", spec=spec, events=events, synchronise=machine.synchronise, full=bool(full),
            clock=machine.clock, **options,
        )  # fmt: skip
        meter.loss = loss
        meter.begin()
        for _ in range(full or 1_000_000):
            machine.step()
            if not meter.tick(1, 32, wait_ns):
                break
        trained = meter.finish() if full else 0.0
    return read(path), meter, trained


def read(path: Path):
    with path.open() as lines:
        return list(read_events(lines))


def of(events, kind):
    return [event for event in events if event["kind"] == kind]


def length(event):
    return event["end_ns"] - event["start_ns"]


def test_phases_come_in_order_and_windows_are_whole(tmp_path):
    machine = Machine(host_ns=4 * MS, device_ns=0)
    events, meter, _ = measure(tmp_path / "e", machine, spec=Spec(window_s=1.0, windows=3))
    assert [event["name"] for event in of(events, "phase")] == [
        "first-step", "warm-up", "steady", "steady", "steady",
    ]  # fmt: skip
    for window in of(events, "window"):
        assert window["end_ns"] - window["start_ns"] == window["steps"] * 4 * MS
        assert window["samples"] == 32 * window["steps"]
        assert window["steps"] == 250
        assert window["wait_ns"] == window["steps"]
    assert meter.samples == 32 * meter.steps
    assert not of(events, "warning")


def test_a_device_that_lags_behind_the_host_is_waited_for(tmp_path):
    # The host needs 1 ms to launch a step that takes 20: its own clock would see twenty times the speed.
    machine = Machine(host_ns=MS, device_ns=20 * MS)
    events, _, _ = measure(tmp_path / "e", machine, spec=Spec(window_s=1.0, windows=2))
    for window in of(events, "window"):
        per_step = (window["end_ns"] - window["start_ns"]) / window["steps"]
        assert per_step == pytest.approx(20 * MS, rel=0.05)
        assert window["end_ns"] - window["start_ns"] < 1.2e9
    assert machine.syncs > 4


class Changing(Machine):
    """A device whose steps take another time once it has measured its first window's first step."""

    def __init__(self, *, before_ns: int, after_ns: int) -> None:
        super().__init__(host_ns=before_ns, device_ns=0)
        self.after_ns = after_ns

    def synchronise(self) -> None:
        super().synchronise()
        if self.now > 3 * 10**9:
            self.host_ns = self.after_ns


@pytest.mark.parametrize(("before_ns", "after_ns"), [(10 * MS, 2 * MS), (2 * MS, 150 * MS)])
def test_a_window_keeps_its_length_where_steps_get_faster_or_slower(tmp_path, before_ns, after_ns):
    machine = Changing(before_ns=before_ns, after_ns=after_ns)
    spec = Spec(window_s=1.0, windows=6)
    events, _, _ = measure(tmp_path / "e", machine, spec=spec, wait_ns=-1)
    windows = of(events, "window")
    assert len({round(length(one) / one["steps"]) for one in windows}) > 1, "the pace changed on the way"
    for window in windows:
        assert 0.95e9 <= length(window) <= 1.2e9
        assert window["wait_ns"] == -1


def test_a_variant_that_took_its_time_ends_with_the_windows_it_has(tmp_path):
    machine = Machine(host_ns=100 * MS, device_ns=0)
    spec = Spec(window_s=1.0, windows=9, warmup_s=2.0, variant_s=4.5)
    events, _, _ = measure(tmp_path / "e", machine, spec=spec)
    assert len(of(events, "window")) == 3
    events, _, _ = measure(tmp_path / "one", machine, spec=Spec(window_s=1.0, windows=9, variant_s=0.1))
    assert len(of(events, "window")) == 1


def test_warm_up_lasts_until_the_step_time_has_settled(tmp_path):
    machine = Machine(host_ns=50 * MS, device_ns=0)
    steps = [0]
    plain = machine.step

    def cooling() -> None:
        steps[0] += 1
        machine.host_ns = max(5 * MS, 50 * MS - steps[0] * MS // 2)
        plain()

    machine.step = cooling
    events, _, _ = measure(tmp_path / "e", machine, spec=Spec(window_s=0.1, warmup_s=60, windows=1))
    warm_up = next(event for event in of(events, "phase") if event["name"] == "warm-up")
    assert warm_up["end_ns"] - warm_up["start_ns"] >= 3 * BLOCK_NS
    assert machine.host_ns < 7 * MS
    assert not of(events, "warning")


def test_a_step_time_that_never_settles_is_warned_of(tmp_path):
    machine = Machine(host_ns=5 * MS, device_ns=0)
    blocks = [0]

    def synchronise() -> None:
        blocks[0] += 1
        machine.host_ns = 5 * MS * (1 + blocks[0] % 2)

    machine.synchronise = synchronise
    events, _, _ = measure(tmp_path / "e", machine, spec=Spec(window_s=0.1, warmup_s=2, windows=1))
    assert len(of(events, "warning")) == 1


def test_a_loss_that_is_not_a_number_ends_the_variant(tmp_path):
    losses = iter([2.3, 2.2, float("nan")])
    machine = Machine(host_ns=MS, device_ns=0)
    with pytest.raises(LossError, match="loss is nan after"):
        measure(tmp_path / "e", machine, spec=Spec(steps=10, windows=5), loss=lambda: next(losses))
    assert len(of(read(tmp_path / "e"), "window")) == 2


def test_fixed_steps_make_windows_of_just_so_many(tmp_path):
    machine = Machine(host_ns=MS, device_ns=3 * MS)
    events, _, _ = measure(tmp_path / "e", machine, spec=Spec(steps=7, warmup_s=0.1))
    assert [window["steps"] for window in of(events, "window")] == [7, 7, 7]
    assert [len(steps["step_ns"]) for steps in of(events, "steps")] == [7, 7, 7]


def test_fixed_steps_of_a_slow_model_end_by_the_clock(tmp_path):
    machine = Machine(host_ns=400 * MS, device_ns=0)
    events, _, _ = measure(tmp_path / "e", machine, spec=Spec(steps=8, window_s=0.1, warmup_s=0.1, windows=2))
    assert [window["steps"] for window in of(events, "window")] == [3, 3]


def test_a_whole_training_is_measured_back_to_back_and_timed_from_its_first_step(tmp_path):
    machine = Machine(host_ns=10 * MS, device_ns=0)
    events, meter, trained = measure(tmp_path / "e", machine, spec=Spec(window_s=1), full=450)
    assert trained == pytest.approx(4.5)
    assert meter.steps == 450
    windows = of(events, "window")
    assert [window["index"] for window in windows] == [0, 1, 2, 3]
    assert all(a["end_ns"] == b["start_ns"] for a, b in itertools.pairwise(windows))
    steady = [event for event in of(events, "phase") if event["name"] == "steady"]
    assert [(event["start_ns"], event["end_ns"]) for event in steady] == [(10 * MS, 4500 * MS)]


def test_a_whole_training_shorter_than_a_window_is_one_window(tmp_path):
    machine = Machine(host_ns=10 * MS, device_ns=0)
    events, _, trained = measure(tmp_path / "e", machine, spec=Spec(window_s=1), full=40)
    (window,) = of(events, "window")
    assert (window["steps"], window["samples"]) == (39, 39 * 32)
    assert window["end_ns"] - window["start_ns"] == 390 * MS
    assert trained == pytest.approx(0.4)


@pytest.mark.parametrize(("hours", "ends"), [(2, False), (4, True)])
def test_a_whole_training_that_will_not_end_in_time_is_measured_in_windows(tmp_path, hours, ends):
    """At 10 ms a step of 32, 3,200 samples/s."""
    machine = Machine(host_ns=10 * MS, device_ns=0)
    spec = Spec(window_s=1, warmup_s=1, windows=2, whole_s=hours * 3600)
    events, meter, _ = measure(tmp_path / "e", machine, spec=spec, full=1200, whole_samples=3200 * 3 * 3600)
    assert meter.full is ends
    windows = [window["index"] for window in of(events, "window")]
    assert windows == (list(range(11)) if ends else [0, 1, 2, 3, 4])
    assert len(of(events, "warning")) == (0 if ends else 1)


@pytest.mark.parametrize(
    ("blocks", "expected"),
    [([], False), ([1.0, 1.0], False), ([9.0, 1.0, 1.04, 1.02], True), ([1.0, 1.0, 1.06], False)],
)
def test_settled_looks_at_the_last_three_blocks(blocks, expected):
    assert settled(blocks) is expected


def test_a_window_that_ends_with_an_epoch_keeps_the_loss_before(tmp_path):
    readings = iter([2.5, 1.5, None])
    machine = Machine(host_ns=100 * MS, device_ns=0)
    spec = Spec(steps=2, warmup_s=0.1, windows=2)
    _, meter, _ = measure(tmp_path / "e", machine, spec=spec, loss=lambda: next(readings))
    assert meter.last_loss == 1.5
    assert next(readings, "all read") == "all read"


@pytest.mark.parametrize("ready", [4, 14])
def test_what_a_pipeline_had_buffered_is_used_up_before_anything_is_measured(tmp_path, ready):
    machine = Machine(host_ns=MS, device_ns=0)
    left = [ready]
    plain = machine.step

    def step() -> None:
        machine.host_ns = MS if left[0] > 0 else 80 * MS
        left[0] -= 1
        plain()

    machine.step = step
    events, _, _ = measure(tmp_path / "e", machine, spec=Spec(window_s=0.4, warmup_s=3.0))
    assert {length(window) // window["steps"] for window in of(events, "window")} == {80 * MS}
    warm_up = next(event for event in of(events, "phase") if event["name"] == "warm-up")
    assert length(warm_up) >= (BUFFERED_CALLS - ready) * 80 * MS
