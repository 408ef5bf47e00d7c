"""Trials are repeated until the interval is narrow enough or the budget is spent; the run says which."""

from __future__ import annotations

from dataclasses import replace

from harness.model.run import PlannedTrial, Stop, Window
from harness.run.events import EventLog
from harness.run.plan import PROFILES
from harness.run.stopping import BUDGET_SPENT, EXHAUSTED, NARROW, NO_MEMORY, NO_SUCCESS, Stopping
from workloads.protocol import BASELINE, TUNED

PROFILE = replace(PROFILES["quick"], trials=3, max_trials=7, target_interval=0.05, budget_s=100.0)


def trial(index: int, device: str = "cpu", variants: tuple[str, ...] = (BASELINE, TUNED)) -> PlannedTrial:
    return PlannedTrial(id=f"a.{device}.{index}", workload="a", device=device, index=index, variants=variants)


def event_log(samples_per_s: float, variant: str = BASELINE, *, ended: bool = True) -> EventLog:
    second = 1_000_000_000
    window = Window(
        variant=variant,
        index=0,
        start_ns=0,
        end_ns=2 * second,
        steps=1,
        samples=int(2 * samples_per_s),
        wait_ns=-1,
    )
    return EventLog(windows=[window], ended=ended)


def go_on(stopping: Stopping, values: list[float], seconds: float = 1.0, device: str = "cpu") -> int:
    """Run trials of these speeds as long as they are wanted; return how many ran."""
    for index, value in enumerate(values):
        if not stopping.wants(trial(index, device)):
            return index
        stopping.took(trial(index, device), event_log(value), seconds)
    return len(values)


def test_it_stops_when_the_interval_is_narrow() -> None:
    stopping = Stopping(PROFILE)
    assert go_on(stopping, [1000, 1001, 999, 1000, 1000, 1000, 1000]) == 3
    assert stopping.stops() == (Stop(workload="a", device="cpu", trials=3, reason=NARROW),)


def test_it_goes_on_while_the_interval_is_wide_and_says_when_all_were_run() -> None:
    stopping = Stopping(PROFILE)
    assert go_on(stopping, [1000, 2000, 500, 1000, 3000, 700, 1500]) == 7
    assert stopping.stops() == (Stop(workload="a", device="cpu", trials=7, reason=EXHAUSTED),)


def test_it_stops_when_one_more_would_not_fit_the_budget() -> None:
    stopping = Stopping(PROFILE)
    assert go_on(stopping, [1000, 2000, 500, 1000, 3000, 700, 1500], seconds=24.0) == 4
    assert stopping.stops()[0].reason == BUDGET_SPENT


def test_the_least_number_of_trials_runs_whatever_it_costs() -> None:
    assert go_on(Stopping(PROFILE), [1000, 2000, 500, 1000], seconds=1e6) == 3


def test_the_budget_is_for_all_pairs_and_each_stops_by_itself() -> None:
    stopping = Stopping(PROFILE)
    noisy = iter([500.0, 1500.0, 900.0, 3000.0, 700.0, 1200.0, 800.0])
    ran = []
    for index in range(7):
        for device, value in (("cpu", 1000.0), ("gpu0", next(noisy))):
            if stopping.wants(trial(index, device)):
                ran.append((device, index))
                stopping.took(trial(index, device), event_log(value), 1.0)
    assert [item for item in ran if item[0] == "cpu"] == [("cpu", 0), ("cpu", 1), ("cpu", 2)]
    assert len([item for item in ran if item[0] == "gpu0"]) == 7
    assert {stop.device: stop.reason for stop in stopping.stops()} == {"cpu": NARROW, "gpu0": EXHAUSTED}


def test_trials_that_failed_count_as_time_but_not_as_values() -> None:
    stopping = Stopping(PROFILE)
    for index in range(3):
        assert stopping.wants(trial(index))
        stopping.took(trial(index), event_log(1000, ended=False), 10.0)
    assert not stopping.wants(trial(3)), "no success in three: more of the same is a waste"
    assert stopping.stops() == (Stop(workload="a", device="cpu", trials=0, reason=NO_SUCCESS),)


def test_a_profile_without_further_trials_says_too_that_none_succeeded() -> None:
    stopping = Stopping(replace(PROFILE, trials=1, max_trials=1))
    stopping.took(trial(0), EventLog(), 1.0)
    assert [stop.reason for stop in stopping.stops()] == [NO_SUCCESS]


def test_without_an_baseline_variant_the_first_variant_decides() -> None:
    stopping = Stopping(PROFILE)
    for index in range(3):
        stopping.took(trial(index, variants=(TUNED,)), event_log(1000, TUNED), 1.0)
    assert not stopping.wants(trial(3, variants=(TUNED,)))


def test_a_point_that_ran_out_of_memory_is_not_tried_again_and_others_are() -> None:
    stopping = Stopping(PROFILE)
    small, large = (replace(trial(0), point=(("batch_size", size),)) for size in (32, 4096))
    stopping.took(small, event_log(1000), 1.0)
    stopping.took(large, EventLog(), 1.0, fits=False)
    assert stopping.wants(replace(small, index=1))
    assert not stopping.wants(replace(large, index=1))
    assert {stop.point: stop.reason for stop in stopping.stops()}[large.point] == NO_MEMORY
