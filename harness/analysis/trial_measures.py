"""What each reading measured, from its steady-state windows.

The speeds of trials in slow periods of the host, which a probe before and after each trial detects, do not count, nor
do readings beside other programs (`disturbance.py`). A variant that is compared with the baseline only, such as a
remedy, is read in one trial, between readings of the baseline: its speed is its gain over those, times the baseline's
speed in the run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, geometric_mean, median

from harness.analysis.disturbance import Disturbed, undisturbed
from harness.model.analysis import MIN_TRIALS, Key
from harness.model.run import Run, Trial
from workloads.protocol import BETWEEN_EPOCHS, MACHINE, PROBES
from workloads.readings import between_epochs_s, by_reading, gains, timing
from workloads.variants import (
    BASELINE,
    INPUT_ONLY,
    MODEL_ONLY,
    TUNED,
    has_any,
    measures_speed,
    refused,
    together,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Measured values of one reading of a variant.

    Attributes:
        at_ns: the middle of its windows.
        throughput: samples/s; step_s: seconds per step; batch: samples per step.
        wait_share: share of time waiting, over windows in which waiting is observable; None without any.
        between_s: seconds per step that ends of epochs take; step_s includes them, windows do not.
        window_throughputs: samples/s of each window, with ends of epochs.
        reading: its number in the trial.
    """

    trial: Trial
    variant: str
    at_ns: float
    throughput: float
    step_s: float
    batch: int
    wait_share: float | None
    between_s: float = 0.0
    window_throughputs: tuple[float, ...] = ()
    reading: int = 0

    @property
    def key(self) -> tuple[str, int]:
        """Variant and number, which tell it from the other readings of its trial."""
        return self.variant, self.reading

    def faster(self, times: float) -> Measure:
        """Return the measure of a trial in which everything is so many times as fast."""
        return replace(
            self,
            throughput=self.throughput * times,
            step_s=self.step_s / times,
            between_s=self.between_s / times,
            window_throughputs=tuple(each * times for each in self.window_throughputs),
        )


Measures = Mapping[Key, tuple[Measure, ...]]


def measures(run: Run, beside: Disturbed) -> Measures:
    """Return the measures of all readings that count, ordered by workload, device, variant and time.

    What a trial measured counts however it ended. Sweep points are excluded, since their parameters differ; see
    harness.analysis.sweeps.

    Args:
        beside: the readings beside other programs.
    """
    usable = [trial for trial in run.trials if trial.windows]
    slow = slow_trials(usable)
    alike: dict[tuple[str, str], list[Trial]] = defaultdict(list)
    for trial in usable:
        if not trial.point and trial.workload != MACHINE:
            alike[trial.workload, trial.device].append(trial)
    result: dict[Key, list[Measure]] = {}
    for (workload, device), trials in alike.items():
        calm = [undisturbed(trial, beside.get(trial.id, ())) for trial in trials]
        baseline = measured(trials, BASELINE)
        of_speed = [each for each in measured(calm, BASELINE) if each.trial.id not in slow]
        dropped = {name for trial in trials for name in refused(trial.judged)}
        fixes = {each.variant: each.fixes for trial in trials for each in trial.scripts}
        for variant in dict.fromkeys(window.variant for trial in trials for window in trial.windows):
            if has_any(fixes.get(variant, [variant]), dropped):
                continue  # another trial may have measured them before
            found = measured(calm, variant)
            if measures_speed(variant):
                found = [each for each in found if each.trial.id not in slow]
            else:
                found = _at_usual_speed(found, baseline, of_speed, beside)
            if found:
                result[Key(workload, device, variant)] = found
        tuned, other = (Key(workload, device, variant) for variant in (TUNED, _of_tuned(trials)))
        if tuned in result and other in result:
            # One script under two names.
            result[tuned] = result[other] = [*result[other], *result[tuned]]
    names = _ranks(workload.name for workload in run.workloads)
    devices = _ranks((*(each.device for each in run.planned), *(each.device for each in run.trials)))
    variants = _ranks((BASELINE, INPUT_ONLY, MODEL_ONLY, TUNED, *(key.variant for key in result)))
    ordered = sorted(
        result,
        key=lambda key: (names.get(key.workload, len(names)), devices[key.device], variants[key.variant]),
    )
    return {
        key: tuple(sorted(result[key], key=lambda each: (each.trial.index, each.at_ns))) for key in ordered
    }


def _of_tuned(trials: Iterable[Trial]) -> str:
    """Return the variant of the remedies that tuned consists of; "" if it has a script of its own."""
    scripts = (script for trial in trials for script in trial.scripts if script.variant == TUNED)
    return next((together(script.fixes) for script in scripts if script.fixes), "")


def _at_usual_speed(
    found: Sequence[Measure], baseline: Sequence[Measure], of_speed: Sequence[Measure], beside: Disturbed
) -> list[Measure]:
    """Return readings as they would be at the baseline's speed in the run.

    Each is compared with the readings of the baseline in its trial that other programs disturbed, or did not, as they
    did it, if there are such.

    Args:
        baseline: its readings, of which those `of_speed` are its speed.
    """
    if not of_speed:
        return list(found)
    usual_s = 1 / median(units(of_speed))
    result = []
    for each in found:
        own = beside.get(each.trial.id, ())
        near = [other for other in baseline if other.trial.id == each.trial.id]
        alike = [other for other in near if (other.key in own) == (each.key in own)]
        references = [(other.at_ns, 1 / other.throughput) for other in alike or near]
        times = gains([(each.at_ns, usual_s)], references)
        # The reference beside it is `times` slower than usual.
        result.append(each.faster(times[0]) if times else each)
    return result


def measured(trials: Sequence[Trial], variant: str) -> list[Measure]:
    """Return the measures of a variant's readings in trials that are alike."""
    values: dict[str, list[float]] = defaultdict(list)
    for trial in trials:
        for metric in trial.metrics:
            if metric.name == BETWEEN_EPOCHS:
                values[metric.variant].append(metric.value)
    between_s = between_epochs_s(values, variant)
    return [found for trial in trials for found in measures_of(trial, variant, between_s)]


def by_trial(values: Iterable[Measure]) -> dict[int, float]:
    """Return trial index -> throughput, as a geometric mean over the trial's readings."""
    speeds: dict[int, list[float]] = defaultdict(list)
    for each in values:
        speeds[each.trial.index].append(each.throughput)
    return {index: geometric_mean(found) for index, found in speeds.items()}


def units(group: Sequence[Measure]) -> list[float]:
    """Return the independent speeds of a variant: of trials if there are several, else of readings."""
    trials = by_trial(group)
    return list(trials.values()) if len(trials) > 1 else [each.throughput for each in group]


def _ranks(names: Iterable[str]) -> dict[str, int]:
    return {name: rank for rank, name in enumerate(dict.fromkeys(names))}


def measures_of(trial: Trial, variant: str, between_s: float) -> Iterator[Measure]:
    """Yield the measure of each reading of a variant in a trial.

    Args:
        between_s: seconds per step that ends of epochs take.
    """
    for windows in by_reading(trial.windows, variant):
        times = timing(windows, between_s)
        if times is not None:
            yield Measure(
                trial=trial,
                variant=variant,
                at_ns=times.at_ns,
                throughput=1 / times.sample_s,
                step_s=times.step_s,
                batch=round(times.batch),
                wait_share=times.wait_share,
                between_s=between_s,
                window_throughputs=tuple(
                    1 / each.sample_s for window in windows if (each := timing([window], between_s))
                ),
                reading=windows[0].reading,
            )


# A host below this share of its usual speed is slow. On a quiet machine the probe stays within 5 %.
SLOW = 0.9
# At most so many trials of a workload and device are repeated and left uncounted.
MAX_REPEATED = 2


def host_speeds(trials: Iterable[Trial]) -> Mapping[str, float]:
    """Return trial id -> the host's speed over its median among the trials, for trials that have a probe."""
    probes = {trial.id: found for trial in trials if (found := _probe(trial))}
    if len(probes) < MIN_TRIALS:
        return {}
    usual = _usual(probes.values())
    return {
        trial: geometric_mean(found[name] / usual[name] for name in PROBES) for trial, found in probes.items()
    }


def usual_probe(trials: Iterable[Trial]) -> Mapping[str, float]:
    """Return the median of each part of the probe over the trials, in calls per second; {} without probes."""
    return _usual([found for trial in trials if (found := _probe(trial))])


def slow_trials(trials: Iterable[Trial]) -> Mapping[str, float]:
    """Return the host's speed in the trials whose figures do not count, by id.

    Enough other trials must remain of the same workload, device and sweep point, and at most MAX_REPEATED go.
    """
    trials = tuple(trials)
    speeds = host_speeds(trials)
    alike: dict[tuple[object, ...], list[str]] = defaultdict(list)
    for trial in trials:
        if trial.id in speeds:
            alike[trial.workload, trial.device, trial.point].append(trial.id)
    result: dict[str, float] = {}
    for names in alike.values():
        slow = sorted((name for name in names if speeds[name] < SLOW), key=lambda name: speeds[name])
        result |= {name: speeds[name] for name in slow[: min(MAX_REPEATED, len(names) - MIN_TRIALS)]}
    return result


def _usual(probes: Collection[Mapping[str, float]]) -> Mapping[str, float]:
    return {name: median(found[name] for found in probes) for name in PROBES} if probes else {}


def _probe(trial: Trial) -> Mapping[str, float]:
    """Return the mean of each part over both ends of a trial; {} if one is missing."""
    values = {
        name: [metric.value for metric in trial.metrics if metric.name == name and not metric.variant]
        for name in PROBES
    }
    return {name: fmean(found) for name, found in values.items()} if all(map(len, values.values())) else {}
