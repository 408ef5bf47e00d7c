"""How training speeds up over workers: throughput, efficiency, what exchanging takes. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from harness.analysis.measures import Measure, by_index, measures
from harness.analysis.ratios import ratio
from harness.analysis.stats import estimate
from harness.model.analysis import Key
from harness.model.run import Run
from harness.model.workers import Point, Scaling
from workloads.protocol import BASELINE, MODEL_ONLY, TUNED

# Variants in which gradients are exchanged.
TRAINING = (BASELINE, MODEL_ONLY, TUNED)


def scaled(runs: Mapping[int, Run]) -> Scaling:
    """Return a point for each workload, training variant and number of workers.

    Args:
        runs: number of workers -> the run that the first of them recorded. Trials of one index were
            interleaved, so that ratios are taken index by index.
    """
    result = {workers: measures(run) for workers, run in sorted(runs.items())}
    keys = dict.fromkeys(key for each in result.values() for key in each if key.variant in TRAINING)
    points = (
        _point(key, workers, each[key], result.get(1, {}).get(key))
        for key in keys
        for workers, each in result.items()
        if key in each
    )
    placements = {
        workers: place for workers, run in sorted(runs.items()) if (place := run.manifest.placement)
    }
    return Scaling(points=tuple(points), placements=placements)


def _point(key: Key, workers: int, these: Sequence[Measure], alone: Sequence[Measure] | None) -> Point:
    throughput = estimate([item.throughput for item in these], "samples/s")
    step = estimate([item.step_s for item in these], "s")
    assert throughput is not None
    assert step is not None
    efficiency = None
    added = None
    if alone:
        each = {index: value / workers for index, value in by_index(these).items()}
        efficiency = ratio(each, by_index(alone))
        added = step.median - statistics.median(item.step_s for item in alone)
    return Point(
        workers=workers,
        throughput=throughput,
        efficiency=efficiency,
        step_time=step,
        exchange_s=_metric(these, "collective_s"),
        added_s=added,
        gradient_bytes=_metric(these, "gradient_bytes"),
        **key._asdict(),
    )


def _metric(these: Sequence[Measure], name: str) -> float | None:
    values = [each.value for item in these for each in item.trial.metrics if each.name == name]
    return statistics.median(values) if values else None
