"""What each reading measured: values from its steady-state windows, and the telemetry in them.

The speeds of trials in slow periods of the host, which a probe before and after each trial detects, do
not count. A variant that is compared with the baseline only, such as a remedy, is read in one trial, between readings
of the baseline: its speed is its gain over those, times the baseline's speed in the run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, geometric_mean, median

import numpy as np
from numpy.typing import NDArray

from harness.model.analysis import MIN_TRIALS, Key, Reading
from harness.model.metrics import MetricKind, is_kind
from harness.model.run import Run, Series, Trial
from workloads.protocol import BETWEEN_EPOCHS, MACHINE, PROBES
from workloads.readings import between_epochs_s, by_reading, gains, timing
from workloads.variants import BASELINE, INPUT_ONLY, MODEL_ONLY, TUNED, measures_speed, together


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Measured values of one reading of a variant.

    Attributes:
        at_ns: the middle of its windows.
        throughput: samples/s; step_s: seconds per step; batch: samples per step.
        wait_share: share of time waiting, over windows in which waiting is observable; None without any.
        between_s: seconds per step that ends of epochs take; step_s includes them, windows do not.
        window_throughputs: samples/s of each window, with ends of epochs.
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


def measures(run: Run) -> Measures:
    """Return the measures of all readings, ordered by workload, device, variant and time.

    What a trial measured counts however it ended. Sweep points are excluded, since their parameters differ; see
    harness.analysis.sweeps.
    """
    usable = [trial for trial in run.trials if trial.windows]
    slow = slow_trials(usable)
    alike: dict[tuple[str, str], list[Trial]] = defaultdict(list)
    for trial in usable:
        if not trial.point and trial.workload != MACHINE:
            alike[trial.workload, trial.device].append(trial)
    result: dict[Key, list[Measure]] = {}
    for (workload, device), trials in alike.items():
        baseline = measured(trials, BASELINE)
        counting = [each for each in baseline if each.trial.id not in slow]
        for variant in dict.fromkeys(window.variant for trial in trials for window in trial.windows):
            found = measured(trials, variant)
            if measures_speed(variant):
                found = [each for each in found if each.trial.id not in slow]
            else:
                found = _beside(found, baseline, counting)
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


def _beside(
    found: Sequence[Measure], baseline: Sequence[Measure], counting: Sequence[Measure]
) -> list[Measure]:
    """Return readings as they would be at the baseline's speed in the run.

    Args:
        baseline: its readings, of which those that are `counting` are its speed.
    """
    if not counting:
        return list(found)
    usual_s = 1 / median(each.throughput for each in counting)
    result = []
    for each in found:
        references = [(other.at_ns, 1 / other.throughput) for other in baseline if other.trial is each.trial]
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
            )


SECOND_NS = 1_000_000_000
# The device with one column per CPU: hundreds on a large host, and threads migrate between them.
PER_CORE = "cores"

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def steady_means(trial: Trial) -> dict[str, dict[Reading, float]]:
    """Return the means of each variant over its windows.

    Counters become rates: their increase over the windows / length of the windows, with "_per_s" appended to
    the name. A metric without readings in a variant's windows is absent. A window shorter than the interval between
    the readings around its start or end is left out, because the increase would include other variants.
    """
    steady = _steady(trial)
    means: dict[str, dict[Reading, float]] = {variant: {} for variant in steady.variants}
    for series in trial.telemetry:
        if series.device != PER_CORE and len(series.t_ns) and steady.variants:
            for name, by_variant in _window_means(series, steady):
                for variant, value in zip(steady.variants, by_variant.tolist(), strict=True):
                    if value == value:  # noqa: PLR0124 - false for NaN only
                        means[variant][Reading(series.source, series.device, name)] = value
    return means


@dataclass(frozen=True, slots=True, kw_only=True)
class _Steady:
    """The windows of a trial in time order, as arrays of equal length.

    Attributes:
        variants: in the order in which they first ran.
        codes: position of each window's variant in `variants`.
    """

    variants: tuple[str, ...]
    codes: Ints
    starts_ns: Ints
    ends_ns: Ints


def _steady(trial: Trial) -> _Steady:
    windows = sorted(trial.windows, key=lambda window: window.start_ns)
    codes = {
        variant: code for code, variant in enumerate(dict.fromkeys(window.variant for window in windows))
    }
    return _Steady(
        variants=tuple(codes),
        codes=np.array([codes[window.variant] for window in windows], dtype=np.int64),
        starts_ns=np.array([window.start_ns for window in windows], dtype=np.int64),
        ends_ns=np.array([window.end_ns for window in windows], dtype=np.int64),
    )


def _window_means(series: Series, steady: _Steady) -> Iterator[tuple[str, Floats]]:
    variants = len(steady.variants)
    tick_codes = _tick_codes(series.t_ns, steady)
    inside = tick_codes >= 0
    for name, values in series.columns.items():
        if is_kind(name, MetricKind.BITS):
            continue
        if is_kind(name, MetricKind.COUNTER):
            yield f"{name}_per_s", _window_rates(series, name, steady)
            continue
        good = inside & np.isfinite(values)
        sums = np.bincount(tick_codes[good], weights=values[good], minlength=variants)
        counts = np.bincount(tick_codes[good], minlength=variants)
        with np.errstate(invalid="ignore", divide="ignore"):
            yield name, sums / counts


def _tick_codes(t_ns: Ints, steady: _Steady) -> Ints:
    """Return the variant code of the window that each tick falls into, -1 outside all windows.

    Some readings cover the time since the previous one (utilisation, GPM). A tick therefore counts only if
    the previous tick was in the same window; otherwise load of the preceding variant would be included.
    Variants with too few readings for this rule keep all their ticks.
    """
    at = np.searchsorted(steady.starts_ns, t_ns, side="right") - 1
    codes = steady.codes[at]
    inside = (at >= 0) & (t_ns <= steady.ends_ns[at])
    whole = inside & (np.concatenate((t_ns[:1], t_ns[:-1])) >= steady.starts_ns[at])
    rare = np.bincount(codes[whole], minlength=len(steady.variants)) == 0
    return np.where(whole | (inside & rare[codes]), codes, -1)


def _window_rates(series: Series, name: str, steady: _Steady) -> Floats:
    variants, codes = len(steady.variants), steady.codes
    increases = counter_increases(series.t_ns, series.columns[name], steady.starts_ns, steady.ends_ns)
    seconds = (steady.ends_ns - steady.starts_ns) / SECOND_NS
    good = np.isfinite(increases)
    sums = np.bincount(codes[good], weights=increases[good], minlength=variants)
    lengths = np.bincount(codes[good], weights=seconds[good], minlength=variants)
    with np.errstate(invalid="ignore", divide="ignore"):
        return sums / lengths


def counter_increases(t_ns: Ints, counter: Floats, starts_ns: Ints, ends_ns: Ints) -> Floats:
    """Return the increase of a counter in each of n intervals, interpolated between readings.

    NaN if the readings do not cover the interval, are further apart at its ends than it is long, or the counter
    was reset in it.
    """
    good = np.isfinite(counter)
    t_ns, counter = t_ns[good], counter[good]
    if len(t_ns) < 2:
        return np.full(len(starts_ns), np.nan)
    # Relative times, because float64 represents nanoseconds since boot exactly for only 104 days.
    origin = int(t_ns[0])
    times = (t_ns - origin).astype(np.float64)
    starts, ends = (starts_ns - origin).astype(np.float64), (ends_ns - origin).astype(np.float64)
    increases = np.interp(ends, times, counter) - np.interp(starts, times, counter)
    apart = np.diff(times, append=times[-1])
    at_start, at_end = (apart[np.searchsorted(times, edges, side="right") - 1] for edges in (starts, ends))
    covered = (starts >= 0) & (ends <= times[-1]) & (np.maximum(at_start, at_end) <= ends - starts)
    return np.where(covered & (increases >= 0), increases, np.nan)


def core_mean(trial: Trial, variant: str, metric: str) -> float | None:
    """Return the mean of a per-CPU metric over a variant's windows, or None without readings."""
    series = next(
        (each for each in trial.telemetry if each.device == PER_CORE and metric in each.columns), None
    )
    steady = _steady(trial)
    if series is None or variant not in steady.variants or not len(series.t_ns):
        return None
    values = series.columns[metric]
    good = (_tick_codes(series.t_ns, steady) == steady.variants.index(variant)) & np.isfinite(values)
    return float(values[good].mean()) if good.any() else None


# A host below this share of its usual speed is slow. On a quiet machine the probe stays within 5 %.
SLOW = 0.9
# At most so many trials of a workload and device are repeated and left uncounted.
MAX_REPEATED = 2


def host_speeds(trials: Iterable[Trial]) -> Mapping[str, float]:
    """Return trial id -> the host's speed over its median among the trials, for trials that have a probe."""
    probes = {trial.id: found for trial in trials if (found := _probe(trial))}
    if len(probes) < MIN_TRIALS:
        return {}
    usual = {name: median(found[name] for found in probes.values()) for name in PROBES}
    return {
        trial: geometric_mean(found[name] / usual[name] for name in PROBES) for trial, found in probes.items()
    }


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


def _probe(trial: Trial) -> Mapping[str, float]:
    """Return the mean of each part over both ends of a trial; {} if one is missing."""
    values = {
        name: [metric.value for metric in trial.metrics if metric.name == name and not metric.variant]
        for name in PROBES
    }
    return {name: fmean(found) for name, found in values.items()} if all(map(len, values.values())) else {}
