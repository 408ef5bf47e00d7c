"""How long the published epochs take: measured where a trial ran them all, else projected."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median

from harness.analysis.learning import STEPS_TRAINED
from harness.analysis.measures import Key, Measure, Measures
from harness.analysis.stats import estimate
from harness.model.analysis import Bound, Summary
from harness.model.run import Run
from workloads.protocol import BASELINE, CACHED_EPOCH, FIRST_EPOCH, TUNED, Workload

# What the driver names the time of a training that it ran to the end.
TRAINING_TIME = "training_s"
# Epochs differ by their cache where the pipeline alone differs by so much.
CACHE_MATTERS = 0.05


def with_training(run: Run, found: Measures, made: Sequence[Summary]) -> tuple[Summary, ...]:
    """Return the summaries with the time for the published epochs, without cold start.

    It is projected from the steady speed unless a trial trained to the end. Where a cache makes later epochs
    faster than the first, a speed measured in the first gives an upper bound, one measured later a lower one.
    """
    declared = {workload.name: workload for workload in run.workloads}
    by_key = {Key(one.workload, one.device, one.variant): one for one in made}
    return tuple(_timed(declared.get(key.workload), one, found[key], by_key) for key, one in by_key.items())


def _timed(
    workload: Workload | None, summary: Summary, group: Sequence[Measure], others: Mapping[Key, Summary]
) -> Summary:
    measured = _metric(group, TRAINING_TIME)
    if measured:
        return replace(summary, training_s=estimate(measured, "s"), training_projected=False)
    if workload is None or workload.task != "train" or workload.data.train <= 0:
        return summary
    if summary.variant not in (BASELINE, TUNED):
        return summary
    an_epoch = workload.samples_per_epoch or workload.data.train
    steps = math.ceil(an_epoch / group[0].batch) * workload.epochs
    return replace(
        summary,
        training_s=estimate([steps * each.step_s for each in group], "s"),
        training_projected=True,
        training_bound=_bound(workload, summary, group, others),
    )


def _bound(
    workload: Workload, summary: Summary, group: Sequence[Measure], others: Mapping[Key, Summary]
) -> Bound:
    """Return what a projection bounds where the first epoch is slower than those out of a cache."""
    key = Key(summary.workload, summary.device, FIRST_EPOCH)
    first, cached = others.get(key), others.get(key._replace(variant=CACHED_EPOCH))
    if first is None or cached is None or workload.epochs < 2:
        return Bound.NONE
    if cached.throughput.median < first.throughput.median * (1 + CACHE_MATTERS):
        return Bound.NONE
    trained = _metric(group, STEPS_TRAINED)
    if not trained:
        return Bound.NONE
    return Bound.UPPER if median(trained) * group[0].batch <= workload.data.train else Bound.LOWER


def _metric(group: Sequence[Measure], name: str) -> list[float]:
    return [
        metric.value
        for each in group
        for metric in each.trial.metrics
        if (metric.variant, metric.name) == (each.variant, name)
    ]
