from dataclasses import replace

import pytest

from harness.defaults import PROFILES
from harness.model.run import PlannedTrial, Status, Trial, Window
from harness.run.runner import BUDGET_SPENT, EXHAUSTED, NARROW, NO_MEMORY, NO_SUCCESS, Stopping
from workloads.protocol import BASELINE, TUNED

PROFILE = replace(PROFILES["quick"], trials=3, max_trials=7, target_interval=0.05, budget_s=100.0)


def planned(index: int, device: str = "cpu", variants: tuple[str, ...] = (BASELINE, TUNED)) -> PlannedTrial:
    return PlannedTrial(id=f"a.{device}.{index}", workload="a", device=device, index=index, variants=variants)


def trial(samples_per_s: float, seconds=1.0, variant=BASELINE, status=Status.OK) -> Trial:
    window = Window(
        variant=variant, index=0, start_ns=0, end_ns=2 * 10**9, steps=1, samples=int(2 * samples_per_s), wait_ns=-1
    )  # fmt: skip
    return Trial(
        id="a", workload="a", device="cpu", index=0, status=status, exit_code=0, message="", started_ns=0,
        ended_ns=int(seconds * 1e9), windows=(window,),
    )  # fmt: skip


def run_trials(stopping: Stopping, values: list[float], seconds: float = 1.0) -> int:
    for index, value in enumerate(values):
        if not stopping.should_run(planned(index)):
            return index
        stopping.add(planned(index), trial(value, seconds))
    return len(values)


@pytest.mark.parametrize(
    ("values", "seconds", "trials", "reason"),
    [
        ([1000, 1001, 999, 1000, 1000, 1000, 1000], 1.0, 3, NARROW),
        ([1000, 2000, 500, 1000, 3000, 700, 1500], 1.0, 7, EXHAUSTED),
        ([1000, 2000, 500, 1000, 3000, 700, 1500], 24.0, 4, BUDGET_SPENT),
        # The minimum number of trials runs even if it exceeds the budget.
        ([1000, 2000, 500, 1000], 1e6, 3, BUDGET_SPENT),
    ],
)
def test_repeats_until_interval_is_narrow_or_budget_is_spent(values, seconds, trials, reason):
    stopping = Stopping(PROFILE)
    assert run_trials(stopping, values, seconds) == trials
    assert stopping.stops() == [{"workload": "a", "device": "cpu", "point": (), "reason": reason}]


def test_budget_is_shared_but_devices_stop_separately():
    stopping = Stopping(PROFILE)
    noisy = iter([500.0, 1500.0, 900.0, 3000.0, 700.0, 1200.0, 800.0])
    ran = []
    for index in range(7):
        for device, value in (("cpu", 1000.0), ("gpu0", next(noisy))):
            if stopping.should_run(planned(index, device)):
                ran.append((device, index))
                stopping.add(planned(index, device), trial(value))
    assert [item for item in ran if item[0] == "cpu"] == [("cpu", 0), ("cpu", 1), ("cpu", 2)]
    assert len([item for item in ran if item[0] == "gpu0"]) == 7
    assert {stop["device"]: stop["reason"] for stop in stopping.stops()} == {"cpu": NARROW, "gpu0": EXHAUSTED}


@pytest.mark.parametrize("trials", [1, 3])
def test_failed_trials_count_as_time_only(trials):
    stopping = Stopping(replace(PROFILE, trials=trials))
    for index in range(trials):
        assert stopping.should_run(planned(index))
        stopping.add(planned(index), trial(1000, status=Status.FAILED))
    assert [stop["reason"] for stop in stopping.stops()] == [NO_SUCCESS]
    assert not stopping.should_run(planned(trials)), "further trials would be wasted"


def test_without_baseline_the_first_variant_decides():
    stopping = Stopping(PROFILE)
    for index in range(3):
        stopping.add(planned(index, variants=(TUNED,)), trial(1000, variant=TUNED))
    assert not stopping.should_run(planned(3, variants=(TUNED,)))


def test_only_points_that_ran_out_of_memory_are_not_repeated():
    stopping = Stopping(PROFILE)
    small, large = (replace(planned(0), point=(("batch_size", size),)) for size in (32, 4096))
    stopping.add(small, trial(1000))
    stopping.add(large, trial(1000, status=Status.OUT_OF_MEMORY))
    assert stopping.should_run(replace(small, index=1))
    assert not stopping.should_run(replace(large, index=1))
    assert {stop["point"]: stop["reason"] for stop in stopping.stops()}[large.point] == NO_MEMORY
