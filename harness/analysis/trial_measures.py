"""Measures: one value per trial and variant, from the samples and times of its steady-state windows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median

from harness.analysis.align import SECOND_NS
from harness.analysis.host_periods import slow_trials
from harness.model.analysis import Key
from harness.model.run import Run, Status, Trial, Window
from workloads.protocol import BASELINE, BETWEEN_EPOCHS, MACHINE, VARIANTS, changes_baseline


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Measured values of one variant in one successful trial.

    Attributes:
        throughput: samples/s; step_s: seconds per step; batch: samples per step.
        wait_share: share of time waiting, over windows in which waiting is observable; None without any.
        between_s: seconds per step that ends of epochs take; step_s includes them, windows do not.
        window_throughputs: samples/s of each window, with ends of epochs.
    """

    trial: Trial
    variant: str
    throughput: float
    step_s: float
    batch: int
    wait_share: float | None
    between_s: float = 0.0
    window_throughputs: tuple[float, ...] = ()


Measures = Mapping[Key, tuple[Measure, ...]]


def measures(run: Run) -> Measures:
    """Return the measures of all successful trials, ordered by workload, device and variant.

    Trials in slow periods of the host do not count; see harness.analysis.host_periods. Sweep points are
    excluded, since their parameters differ; see harness.analysis.sweeps.
    """
    groups: dict[Key, list[Trial]] = defaultdict(list)
    usable = [trial for trial in run.trials if trial.status is Status.OK]
    slow = slow_trials(usable)
    alike: dict[tuple[str, str], list[Trial]] = defaultdict(list)
    for trial in usable:
        alike[trial.workload, trial.device].append(trial)
    for trial in usable:
        if not trial.point and trial.workload != MACHINE and trial.id not in slow:
            for variant in dict.fromkeys(window.variant for window in trial.windows):
                groups[Key(trial.workload, trial.device, variant)].append(trial)
    result: dict[Key, list[Measure]] = {}
    for key, trials in groups.items():
        between_s = between_epochs_s(alike[key.workload, key.device], key.variant)
        found = (measure_of(each, key.variant, between_s) for each in trials)
        if measured := [each for each in found if each is not None]:
            result[key] = measured
    names = _ranks(workload.name for workload in run.workloads)
    devices = _ranks((*(each.device for each in run.planned), *(each.device for each in run.trials)))
    variants = _ranks((*VARIANTS, *(key.variant for key in result)))
    ordered = sorted(
        result,
        key=lambda key: (names.get(key.workload, len(names)), devices[key.device], variants[key.variant]),
    )
    return {key: tuple(sorted(result[key], key=lambda each: each.trial.index)) for key in ordered}


def between_epochs_s(trials: Iterable[Trial], variant: str) -> float:
    """Return the seconds per step of ends of epochs, as a median over the trials: not every one has an end.

    Changes of the baseline that had no end of an epoch have the baseline's.
    """
    values: dict[str, list[float]] = {variant: [], BASELINE: []}
    for trial in trials:
        for metric in trial.metrics:
            if metric.name == BETWEEN_EPOCHS and metric.variant in values:
                values[metric.variant].append(metric.value)
    found = values[variant] or (values[BASELINE] if changes_baseline(variant) else [])
    return median(found) if found else 0.0


def by_index(values: Iterable[Measure]) -> dict[int, float]:
    """Return trial index -> throughput."""
    return {each.trial.index: each.throughput for each in values}


def _ranks(names: Iterable[str]) -> dict[str, int]:
    return {name: rank for rank, name in enumerate(dict.fromkeys(names))}


def measure_of(trial: Trial, variant: str, between_s: float = 0.0) -> Measure | None:
    """Return the measure of one variant in a trial; None without steady-state windows.

    Args:
        between_s: seconds per step that ends of epochs take.
    """
    windows = [window for window in trial.windows if window.variant == variant]
    steps = sum(window.steps for window in windows)
    time_ns = sum(_length_ns(window, between_s) for window in windows)
    samples = sum(window.samples for window in windows)
    if time_ns <= 0 or steps <= 0 or samples <= 0:
        return None
    return Measure(
        trial=trial,
        variant=variant,
        throughput=samples * SECOND_NS / time_ns,
        step_s=time_ns / SECOND_NS / steps,
        batch=round(samples / steps),
        wait_share=_wait_share(windows, between_s),
        between_s=between_s,
        window_throughputs=tuple(
            window.samples * SECOND_NS / _length_ns(window, between_s)
            for window in windows
            if window.samples > 0 and window.end_ns > window.start_ns
        ),
    )


def _length_ns(window: Window, between_s: float) -> float:
    """Return the time of a window's steps with their part of ends of epochs."""
    return window.end_ns - window.start_ns + window.steps * between_s * SECOND_NS


def _wait_share(windows: Iterable[Window], between_s: float) -> float | None:
    observed = [window for window in windows if window.wait_ns >= 0]
    time_ns = sum(_length_ns(window, between_s) for window in observed)
    return min(1.0, sum(window.wait_ns for window in observed) / time_ns) if time_ns > 0 else None
