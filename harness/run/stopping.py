"""Stopping rule: repeat trials until the interval is narrow enough or the time budget is spent."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from harness.analysis.host_periods import MAX_REPEATED, SLOW, host_speeds
from harness.analysis.stats import narrow_enough
from harness.defaults import Profile
from harness.model.run import PlannedTrial, Point, Status, Trial
from workloads.protocol import BASELINE

NO_SUCCESS = "no trial has succeeded"
NARROW = "interval narrow enough"
BUDGET_SPENT = "time budget spent"
NO_MEMORY = "it does not fit into memory"
EXHAUSTED = "all planned trials ran"


_Key = tuple[str, str, Point]


class Stopping:
    """Decide for each workload, device and sweep point whether to run another trial.

    The first `profile.trials` always run, and as many more as ran in slow periods of the host. After that,
    repetition stops as soon as the interval of the baseline's throughput is narrow enough, or another trial would
    exceed the budget. A sweep point that ran out of memory is not repeated.
    """

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._values: dict[_Key, list[float]] = defaultdict(list)
        self._last_s: dict[_Key, float] = {}
        self._spent_s = 0.0
        self._reasons: dict[_Key, str] = {}
        self._ended: list[Trial] = []

    def should_run(self, trial: PlannedTrial) -> bool:
        """Return whether `trial` should run."""
        key = (trial.workload, trial.device, trial.point)
        if trial.point and key in self._reasons:
            return False
        if trial.index < self._profile.trials + min(self._slow(key), MAX_REPEATED):
            return True
        values = self._values[key]
        if not values:
            self._reasons[key] = NO_SUCCESS
        elif narrow_enough(values, self._profile.target_interval):
            self._reasons[key] = NARROW
        elif self._spent_s + self._last_s.get(key, 0.0) > self._profile.budget_s:
            self._reasons[key] = BUDGET_SPENT
        return key not in self._reasons

    def _slow(self, key: _Key) -> int:
        """Return how many trials ran while the host was slow; they are repeated."""
        speeds = host_speeds(self._ended)
        return sum(
            speeds.get(each.id, 1.0) < SLOW
            for each in self._ended
            if (each.workload, each.device, each.point) == key
        )

    def add(self, planned: PlannedTrial, trial: Trial) -> None:
        """Record a trial that has ended, with any outcome."""
        key = (planned.workload, planned.device, planned.point)
        self._last_s[key] = (trial.ended_ns - trial.started_ns) / 1e9
        self._spent_s += self._last_s[key]
        if trial.status is Status.OK:
            self._ended.append(trial)
        if trial.status is Status.OUT_OF_MEMORY:
            self._reasons[key] = NO_MEMORY
        variant = planned.variants[0] if BASELINE not in planned.variants else BASELINE
        windows = [window for window in trial.windows if window.variant == variant]
        busy_ns = sum(window.end_ns - window.start_ns for window in windows)
        if trial.status is Status.OK and busy_ns:
            self._values[key].append(sum(window.samples for window in windows) * 1e9 / busy_ns)

    def stops(self) -> list[dict[str, Any]]:
        """Return workload, device and point with the reason for stopping."""
        return [
            {
                "workload": key[0],
                "device": key[1],
                "point": key[2],
                "reason": self._reasons.get(key) or (EXHAUSTED if self._values[key] else NO_SUCCESS),
            }
            for key in self._last_s
        ]
