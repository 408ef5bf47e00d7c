"""When to stop repeating: the interval is narrow enough, or the budget is spent. Says which."""

from __future__ import annotations

from collections import defaultdict

from harness.analysis.stats import narrow_enough
from harness.defaults import Profile
from harness.model.run import PlannedTrial, Point, Status, Stop, Trial
from workloads.protocol import BASELINE

NO_SUCCESS = "no trial has succeeded"
NARROW = "interval narrow enough"
BUDGET_SPENT = "time budget spent"
NO_MEMORY = "it does not fit into memory"
EXHAUSTED = "all planned trials ran"


_Pair = tuple[str, str, Point]


class Stopping:
    """Decide for each workload, device and point of a sweep whether another trial is worth its time.

    The first `profile.trials` of each always run. After that a pair is done as soon as the interval of its
    first variant's throughput is narrow enough, or one more trial would not fit into the budget. A point of a
    sweep that has run out of memory is not tried again.
    """

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._values: dict[_Pair, list[float]] = defaultdict(list)
        self._last_s: dict[_Pair, float] = {}
        self._spent_s = 0.0
        self._reasons: dict[_Pair, str] = {}

    def wants(self, trial: PlannedTrial) -> bool:
        """Return whether `trial` should run."""
        pair = (trial.workload, trial.device, trial.point)
        if trial.point and pair in self._reasons:
            return False
        if trial.index < self._profile.trials:
            return True
        values = self._values[pair]
        if not values:
            self._reasons[pair] = NO_SUCCESS
        elif narrow_enough(values, self._profile.target_interval):
            self._reasons[pair] = NARROW
        elif self._spent_s + self._last_s.get(pair, 0.0) > self._profile.budget_s:
            self._reasons[pair] = BUDGET_SPENT
        return pair not in self._reasons

    def took(self, planned: PlannedTrial, trial: Trial) -> None:
        """Take note of a trial that has ended, whatever its outcome."""
        pair = (planned.workload, planned.device, planned.point)
        self._last_s[pair] = (trial.ended_ns - trial.started_ns) / 1e9
        self._spent_s += self._last_s[pair]
        if trial.status is Status.OUT_OF_MEMORY:
            self._reasons[pair] = NO_MEMORY
        variant = planned.variants[0] if BASELINE not in planned.variants else BASELINE
        windows = [window for window in trial.windows if window.variant == variant]
        busy_ns = sum(window.end_ns - window.start_ns for window in windows)
        if trial.status is Status.OK and busy_ns:
            self._values[pair].append(sum(window.samples for window in windows) * 1e9 / busy_ns)

    def stops(self) -> tuple[Stop, ...]:
        """Return why each pair was repeated no further."""
        return tuple(
            Stop(
                workload=workload,
                device=device,
                trials=len(values := self._values[workload, device, point]),
                reason=self._reasons.get((workload, device, point)) or (EXHAUSTED if values else NO_SUCCESS),
                point=point,
            )
            for workload, device, point in self._last_s
        )
