"""Which trial runs next: each a few times, then those with the widest intervals, until all are narrow or time is up."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import geometric_mean, median

from harness.defaults import Profile
from harness.intervals import Spread, half_width, usual_by_kind
from harness.model.analysis import MIN_TRIALS
from harness.model.device import device_kind
from harness.model.run import PlannedTrial, Point, Status, Trial
from workloads.protocol import BETWEEN_EPOCHS, EVALUATE, FIRST_STEP, STEADY
from workloads.readings import between_epochs_s, by_reading, timing
from workloads.variants import BASELINE, measures_speed

# Models that take this long compile for most of it, and their readings hardly differ.
LONG_S = 120.0
# What a process takes beside its phases: fork, the script's own imports, end.
_PROCESS_S = 1.0
# The most that is left of a first step where the compiled program is loaded: tracing. GPT-2 on an H100: 0.6.
_LOADED = 0.67
_Key = tuple[str, str, Point]


class Stopping:
    """Decide which trial of a run is next.

    The first `profile.trials` of each workload, device and sweep point run in the order planned; where one takes longer
    than LONG_S and their number was not chosen, only as many as the time allows. After that, the next is always one of
    those whose speed has the widest interval, until all intervals are narrow enough or another trial would take longer
    than what is left of the time. A sweep point that ran out of memory is not repeated, nor what has failed twice in a
    row for the same reason.
    """

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._speeds: dict[_Key, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self._again_s: dict[_Key, float] = {}
        self._spent_s = 0.0
        self._out_of_memory: set[_Key] = set()
        self._failure: dict[_Key, str] = {}
        self._failed_again: set[_Key] = set()

    def next(self, pending: Sequence[PlannedTrial]) -> PlannedTrial | None:
        """Return which of these trials should run next; None if enough is measured."""
        for trial in pending:
            if trial.index < self._profile.trials and self._required(_key(trial)):
                return trial
        further = [trial for trial in pending if self._fits(_key(trial)) and self._speeds[_key(trial)]]
        usual = self._usual()
        widest = max(further, key=lambda trial: self.width(trial, usual), default=None)
        if widest is None or self.width(widest, usual) <= self._profile.target_interval:
            return None
        key = _key(widest)
        return next(trial for trial in further if _key(trial) == key)

    def width(self, trial: PlannedTrial, usual: Mapping[str, Spread] | None = None) -> float:
        """Return the widest interval of the speeds of a trial's workload, device and point, as half width / median.

        Args:
            usual: the spread among the run's speeds by kind of device, if the caller has it.
        """
        spread = (usual or self._usual())[device_kind(trial.device)]
        widths = [
            # Two that happen to agree do not end a run.
            half_width(speeds, spread) if len(speeds) >= MIN_TRIALS else math.inf
            for speeds in self._speeds[_key(trial)].values()
        ]
        return max(widths, default=math.inf)

    def _usual(self) -> Mapping[str, Spread]:
        return usual_by_kind(self._values())

    def _values(self) -> Iterator[tuple[str, Sequence[float]]]:
        """Yield the device of each speed and its values."""
        for (_, device, _), by_variant in self._speeds.items():
            for speeds in by_variant.values():
                yield device, speeds

    @property
    def widest(self) -> float:
        """The widest interval of all that have one; infinite without any."""
        usual = self._usual()
        widths = (half_width(speeds, usual[device_kind(device)]) for device, speeds in self._values())
        return max((width for width in widths if width < math.inf), default=math.inf)

    @property
    def left_s(self) -> float:
        """How much of the time is left, in seconds."""
        return max(0.0, self._profile.budget_s - self._spent_s)

    def speeds(self, trial: PlannedTrial) -> dict[str, tuple[float, float]]:
        """Return variant -> (median speed in samples/s, half width / median) so far, of what the trial measures."""
        usual = self._usual()[device_kind(trial.device)]
        return {
            variant: (median(speeds), half_width(speeds, usual))
            for variant, speeds in self._speeds[_key(trial)].items()
            if measures_speed(variant)
        }

    def _required(self, key: _Key) -> bool:
        if key in self._out_of_memory and key[2]:
            return False
        chosen = self._profile.trials == self._profile.max_trials
        return chosen or self._again_s.get(key, 0.0) <= LONG_S or self._fits(key)

    def _fits(self, key: _Key) -> bool:
        hopeless = key in self._out_of_memory or key in self._failed_again
        return not hopeless and self._again_s.get(key, 0.0) <= self.left_s

    def add(self, planned: PlannedTrial, trial: Trial, *, keeps_programs: bool = False) -> None:
        """Record a trial that has ended, with any outcome.

        Args:
            keeps_programs: see Spec.
        """
        key = _key(planned)
        took_s = trial.duration_s
        self._spent_s += took_s
        measured = {window.variant for window in trial.windows}
        shown = [variant for variant in measured if measures_speed(variant)] or sorted(measured)[:1]
        loads = keeps_programs and planned.index == 0
        self._again_s[key] = min(took_s, sum(_again_s(trial, variant, loads) for variant in shown) or took_s)
        if trial.status is Status.OUT_OF_MEMORY:
            self._out_of_memory.add(key)
        if trial.message and trial.message == self._failure.get(key):
            self._failed_again.add(key)
        self._failure[key] = trial.message
        for variant in shown:
            if speed := speed_of(trial, variant):
                self._speeds[key][variant].append(speed)


def _again_s(trial: Trial, variant: str, loads: bool) -> float:
    """Return how long another reading of a variant takes, in seconds, without its evaluation; inf if unknown.

    Args:
        loads: whether it will load a program that XLA has compiled for this one.
    """
    first: dict[str, float] = {}
    for phase in sorted(trial.phases, key=lambda phase: phase.start_ns):
        if phase.variant == variant and phase.name not in (STEADY, EVALUATE):
            first.setdefault(phase.name, (phase.end_ns - phase.start_ns) / 1e9)
    compiled = any(info.variant == variant and info.params.get("jit_compile") for info in trial.variants)
    if loads and compiled and FIRST_STEP in first:
        first[FIRST_STEP] *= _LOADED
    readings = by_reading(trial.windows, variant)
    if not first or not readings:
        return math.inf
    return _PROCESS_S + sum(first.values()) + sum(window.length_ns for window in readings[0]) / 1e9


def speed_of(trial: Trial, variant: str) -> float:
    """Return the speed of a variant in a trial, as a mean over its readings, in samples/s; 0 without one."""
    values: dict[str, list[float]] = defaultdict(list)
    for metric in trial.metrics:
        if metric.name == BETWEEN_EPOCHS and metric.variant in (variant, BASELINE):
            values[metric.variant].append(metric.value)
    between_s = between_epochs_s(values, variant)
    readings = (timing(windows, between_s) for windows in by_reading(trial.windows, variant))
    speeds = [1 / each.sample_s for each in readings if each is not None]
    return geometric_mean(speeds) if speeds else 0.0


def _key(trial: PlannedTrial) -> _Key:
    return trial.workload, trial.device, trial.point
