"""Scaling of training over workers: throughput, efficiency, exchange of gradients."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from harness.analysis.ratios import ratio
from harness.analysis.stats import estimate
from harness.analysis.trial_measures import Measure, by_index, measures
from harness.model.analysis import Key
from harness.model.multi_node import Scaling, ScalingPoint
from harness.model.run import Run
from workloads.protocol import BASELINE, MODEL_ONLY, TUNED

# Variants in which gradients are exchanged.
TRAINING = (BASELINE, MODEL_ONLY, TUNED)


def analyse_scaling(runs: Mapping[int, Run]) -> Scaling:
    """Return a point for each workload, training variant and number of workers.

    Args:
        runs: number of workers -> run recorded by the first worker. Trials were interleaved, so ratios are
            paired by trial index.
    """
    measured = {workers: measures(run) for workers, run in sorted(runs.items())}
    keys = dict.fromkeys(key for each in measured.values() for key in each if key.variant in TRAINING)
    points = (
        _point(key, workers, each[key], measured.get(1, {}).get(key))
        for key in keys
        for workers, each in measured.items()
        if key in each
    )
    placements = {
        workers: placement for workers, run in sorted(runs.items()) if (placement := run.manifest.placement)
    }
    return Scaling(points=tuple(points), placements=placements)


def _point(
    key: Key, workers: int, group: Sequence[Measure], single: Sequence[Measure] | None
) -> ScalingPoint:
    throughput = estimate([item.throughput for item in group], "samples/s")
    step = estimate([item.step_s for item in group], "s")
    assert throughput is not None
    assert step is not None
    efficiency = None
    added = None
    if single:
        per_worker = {index: value / workers for index, value in by_index(group).items()}
        efficiency = ratio(per_worker, by_index(single))
        added = step.median - statistics.median(item.step_s for item in single)
    return ScalingPoint(
        workers=workers,
        throughput=throughput,
        efficiency=efficiency,
        step_time=step,
        exchange_s=_metric(group, "collective_s"),
        added_s=added,
        gradient_bytes=_metric(group, "gradient_bytes"),
        **key._asdict(),
    )


def _metric(group: Sequence[Measure], name: str) -> float | None:
    values = [each.value for item in group for each in item.trial.metrics if each.name == name]
    return statistics.median(values) if values else None
