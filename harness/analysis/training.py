"""How long the published epochs take: measured, or projected; epochs out of a cache have their own speed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from harness.analysis.breakdown import input_share
from harness.analysis.case import Case, cases
from harness.analysis.learning import STEPS_TRAINED
from harness.analysis.measures import Key, Measure, Measures
from harness.analysis.stats import estimate
from harness.analysis.words import significant
from harness.model.analysis import Bound, Summary
from harness.model.run import Run, Trial, Window
from workloads.protocol import BASELINE, CACHED_EPOCH, FIRST_EPOCH, TUNED, Workload

# What the driver names the time of a training that it ran to the end, and a stage or parameter that caches.
TRAINING_TIME, CACHE = "training_s", "cache"

MEASURED = "trained to the end"
STEADY = "projected from the steady speed"
AT_MOST = (
    "an upper bound, projected from the first epoch alone: those after it read from the cache and were not "
    "measured"
)
AT_LEAST = (
    "a lower bound, projected from epochs that read from the cache: the first, which fills it, was not "
    "measured"
)
TOLD = " (told from the pipeline alone)"
MIXED = "projected from windows in which the first epoch and those out of the cache are not told apart"


def with_training(run: Run, found: Measures, made: Sequence[Summary]) -> tuple[Summary, ...]:
    """Return the summaries with the time for the published epochs, without cold start, and how it is known.

    It is measured where any trial ran them all. Else it is projected, for baseline and tuned: from the
    steady speed, or, where the pipeline has a cache, the first pass through the data and those after it each
    at its own speed.
    """
    by_key = {(case.name, case.device): case for case in cases(run, made, ())}
    return tuple(_timed(by_key[one.workload, one.device], one, found) for one in made)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Epochs:
    """Steps of a training: all, and of them those of the first pass through the data.

    Attributes:
        least, most: samples of a pass; they differ where an epoch is declared that is not the data's.
    """

    steps: int
    first: int
    least: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Speeds:
    """Seconds a step in each trial, in the first pass and after it; how it is known, and what it bounds."""

    first: Sequence[float]
    later: Sequence[float]
    how: str
    bound: Bound = Bound.NONE


def _timed(case: Case, summary: Summary, found: Measures) -> Summary:
    group = found[Key(summary.workload, summary.device, summary.variant)]
    measured = [
        metric.value for one in group for metric in one.trial.metrics
        if metric.variant == one.variant and metric.name == TRAINING_TIME
    ]  # fmt: skip
    if measured:
        return replace(
            summary, training_s=estimate(measured, "s"), training_projected=False, training_how=MEASURED
        )
    workload = case.workload
    if (
        workload is None
        or workload.task != "train"
        or workload.data.train <= 0
        or summary.variant not in (BASELINE, TUNED)
    ):
        return summary
    epochs = _epochs(workload, group[0].batch)
    speeds = _speeds(case, summary, group, epochs)
    times = [
        epochs.first * first + (epochs.steps - epochs.first) * later
        for first, later in zip(speeds.first, speeds.later, strict=True)
    ]
    return replace(
        summary,
        training_s=estimate(times, "s"),
        training_projected=True,
        training_how=speeds.how,
        training_bound=speeds.bound,
    )


def _epochs(workload: Workload, batch: int) -> _Epochs:
    data = workload.data.train
    an_epoch = workload.samples_per_epoch or data
    steps = math.ceil(an_epoch / batch) * workload.epochs
    most = max(an_epoch, data)
    return _Epochs(
        steps=steps, first=min(steps, math.ceil(most / batch)), least=min(an_epoch, data), most=most
    )


def _speeds(case: Case, summary: Summary, group: Sequence[Measure], epochs: _Epochs) -> _Speeds:
    """Return the speed of the first pass and of those after it, as far as this run tells them apart."""
    whole = [one.step_s for one in group]
    if epochs.first == epochs.steps or not _caches(case, summary):
        return _Speeds(first=whole, later=whole, how=STEADY)
    split = [_split(one, epochs) for one in group]
    first, later = ([side for side in sides if side is not None] for sides in zip(*split, strict=True))
    if first and later:
        return _both(first, median(later) / median(first), summary.batch_size)
    if first:
        ratio = _changed(case, summary, FIRST_EPOCH, CACHED_EPOCH)
        if ratio is not None:
            return _both(first, ratio, summary.batch_size, cached=TOLD)
        return _Speeds(first=first, later=first, how=AT_MOST, bound=Bound.UPPER)
    if later:
        ratio = _changed(case, summary, CACHED_EPOCH, FIRST_EPOCH)
        if ratio is not None:
            return _both([one * ratio for one in later], 1 / ratio, summary.batch_size, filled=TOLD)
        return _Speeds(first=later, later=later, how=AT_LEAST, bound=Bound.LOWER)
    return _Speeds(first=whole, later=whole, how=MIXED)


def _both(first: Sequence[float], ratio: float, batch: int, *, filled: str = "", cached: str = "") -> _Speeds:
    """Return both speeds, those after the first pass by the ratio of their steps' times to the first's.

    Args:
        filled, cached: what to say of either speed beside it.
    """
    a_step = median(first)
    return _Speeds(
        first=first,
        later=[one * ratio for one in first],
        how=f"projected from {significant(batch / a_step)} samples/s{filled} in the first epoch and "
        f"{significant(batch / (a_step * ratio))}{cached} in those after it, which read from the cache",
    )


def _caches(case: Case, summary: Summary) -> bool:
    """Tell whether a variant's later epochs read from a cache of the pipeline's.

    The driver runs the epochs' variants where baseline's pipeline has a cache, and the tuned variant has it too
    unless its data lies on the device. Without those variants a stage or a parameter of that name tells.
    """
    params = next(
        (
            info.params
            for trial in _trials(case)
            for info in trial.variants
            if info.variant == summary.variant
        ),
        {},
    )
    if params.get("feed") == "resident" or params.get("loader") == "keras":
        return False
    named = case.workload is not None and CACHE in case.workload.stages
    return CACHED_EPOCH in case.variants or named or params.get(CACHE) is True


def _trials(case: Case) -> Sequence[Trial]:
    return [one for one in case.run.trials if (one.workload, one.device) == (case.name, case.device)]


def _split(one: Measure, epochs: _Epochs) -> tuple[float | None, float | None]:
    """Return a trial's seconds a step in the windows that surely lie in the first pass, and surely after it.

    Warm-up and what runs between windows are not counted one by one, so that a window begins after all the
    windows before it at the earliest, and ends before all those after it at the latest.
    """
    windows = sorted(
        (each for each in one.trial.windows if each.variant == one.variant), key=lambda each: each.index
    )
    trained = next(
        (
            metric.value
            for metric in one.trial.metrics
            if (metric.variant, metric.name) == (one.variant, STEPS_TRAINED)
        ),
        math.inf,
    )
    first, later = [], []
    before, after = 0, sum(each.steps for each in windows)
    for each in windows:
        after -= each.steps
        if (trained - after) * one.batch <= epochs.least:
            first.append(each)
        elif before * one.batch >= epochs.most:
            later.append(each)
        before += each.steps
    return _step_s(first), _step_s(later)


def _step_s(windows: Sequence[Window]) -> float | None:
    steps = sum(each.steps for each in windows)
    return sum(each.end_ns - each.start_ns for each in windows) / 1e9 / steps if steps else None


def _changed(case: Case, summary: Summary, measured: str, wanted: str) -> float | None:
    """Return by what a step's time changes from the epochs that were measured to those that were not.

    What input costs baseline, and what of it computing hides, is known for the one kind of epoch. As much
    is taken to be hidden in the other, in which the pipeline by itself takes as long as its own variant says.
    None for other variants, whose pipelines may differ, and where nothing tells what input costs.
    """
    before, after = case.speed(measured), case.speed(wanted)
    lost = input_share(case)
    if summary.variant != BASELINE or not before or not after or lost is None:
        return None
    whole = 1 / summary.throughput.median
    cost = lost.share * whole
    hidden = max(0.0, 1 / before - cost)
    return (whole - cost + max(0.0, 1 / after - hidden)) / whole


def training_note(summary: Summary) -> str:
    """Say in a sentence how a projected time was come by where a cache makes epochs differ; "" elsewhere."""
    if summary.training_s is None or summary.training_how in (MEASURED, STEADY):
        return ""
    time = significant(summary.training_s.median)
    return f"The time of a whole training, {time} s, is {summary.training_how}."
