"""Measures: one value per trial and variant, from the samples and times of its steady-state windows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from harness.analysis.align import SECOND_NS
from harness.model.analysis import Key
from harness.model.run import Run, Status, Trial, Window
from workloads.protocol import MACHINE, VARIANTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """Measured values of one variant in one successful trial.

    Attributes:
        throughput: samples/s; step_s: seconds per step; batch: samples per step.
        wait_share: share of time waiting, over windows in which waiting is observable; None without any.
        window_throughputs: samples/s of each window.
    """

    trial: Trial
    variant: str
    throughput: float
    step_s: float
    batch: int
    wait_share: float | None
    window_throughputs: tuple[float, ...] = ()


Measures = Mapping[Key, tuple[Measure, ...]]


def measures(run: Run) -> Measures:
    """Return the measures of all successful trials, ordered by workload, device and variant.

    Sweep points are excluded, since their parameters differ; see harness.analysis.sweeps.
    """
    result: dict[Key, list[Measure]] = {}
    for trial in run.trials:
        if trial.status is Status.OK and not trial.point and trial.workload != MACHINE:
            for variant in dict.fromkeys(window.variant for window in trial.windows):
                measure = measure_of(trial, variant)
                if measure is not None:
                    result.setdefault(Key(trial.workload, trial.device, variant), []).append(measure)
    names = _ranks(workload.name for workload in run.workloads)
    devices = _ranks((*(each.device for each in run.planned), *(each.device for each in run.trials)))
    variants = _ranks((*VARIANTS, *(key.variant for key in result)))
    ordered = sorted(
        result,
        key=lambda key: (names.get(key.workload, len(names)), devices[key.device], variants[key.variant]),
    )
    return {key: tuple(sorted(result[key], key=lambda each: each.trial.index)) for key in ordered}


def by_index(values: Iterable[Measure]) -> dict[int, float]:
    """Return trial index -> throughput."""
    return {each.trial.index: each.throughput for each in values}


def _ranks(names: Iterable[str]) -> dict[str, int]:
    return {name: rank for rank, name in enumerate(dict.fromkeys(names))}


def measure_of(trial: Trial, variant: str) -> Measure | None:
    """Return the measure of one variant in a trial; None without steady-state windows."""
    windows = [window for window in trial.windows if window.variant == variant]
    time_ns = sum(window.end_ns - window.start_ns for window in windows)
    steps = sum(window.steps for window in windows)
    samples = sum(window.samples for window in windows)
    if time_ns <= 0 or steps <= 0 or samples <= 0:
        return None
    return Measure(
        trial=trial,
        variant=variant,
        throughput=samples * SECOND_NS / time_ns,
        step_s=time_ns / SECOND_NS / steps,
        batch=round(samples / steps),
        wait_share=_wait_share(windows),
        window_throughputs=tuple(
            window.samples * SECOND_NS / (window.end_ns - window.start_ns)
            for window in windows
            if window.samples > 0 and window.end_ns > window.start_ns
        ),
    )


def _wait_share(windows: Iterable[Window]) -> float | None:
    observed = [window for window in windows if window.wait_ns >= 0]
    time_ns = sum(window.end_ns - window.start_ns for window in observed)
    return min(1.0, sum(window.wait_ns for window in observed) / time_ns) if time_ns > 0 else None
