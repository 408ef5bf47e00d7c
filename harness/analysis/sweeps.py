"""Throughput of the points of a sweep, the fastest point and those that may be as fast."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from harness.analysis.best import may_be_best
from harness.analysis.ratios import ratio
from harness.analysis.stats import estimate
from harness.analysis.trial_measures import Measure, between_epochs_s, by_index, measure_of
from harness.model.analysis import Sweep, SweepPoint
from harness.model.run import Point, Run, Status, Trial

# The status of a point is the first of these among its trials.
_STATUSES = (Status.OK, Status.OUT_OF_MEMORY, Status.FAILED, Status.TIMEOUT, Status.NO_GPU, Status.BAD_EVENTS,
             Status.ENGINE_LOST, Status.INTERRUPTED)  # fmt: skip


def sweeps(run: Run) -> Iterator[Sweep]:
    """Yield one sweep for each swept workload, device and variant."""
    groups: dict[tuple[str, str], dict[Point, list[str]]] = {}
    for planned in run.planned:
        if planned.point:
            variants = groups.setdefault((planned.workload, planned.device), {}).setdefault(planned.point, [])
            variants += [variant for variant in planned.variants if variant not in variants]
    for (workload, device), points in groups.items():
        trials = [each for each in run.trials if (each.workload, each.device) == (workload, device)]
        for variant in dict.fromkeys(variant for variants in points.values() for variant in variants):
            yield _sweep(workload, device, variant, tuple(points), trials)


def _sweep(
    workload: str, device: str, variant: str, points: Sequence[Point], trials: Sequence[Trial]
) -> Sweep:
    by_point = {point: [each for each in trials if each.point == point] for point in points}
    measured = {point: _measured(by_point[point], variant) for point in points}
    speeds = {point: by_index(result) for point, result in measured.items() if result}
    medians = {point: float(np.median(list(values.values()))) for point, values in speeds.items()}
    best = max(medians, key=lambda point: medians[point], default=())
    candidates = may_be_best(speeds)
    sweep_points = tuple(
        _point(
            point,
            by_point[point],
            measured[point],
            best=speeds.get(best, {}),
            tied=None if candidates is None or point not in speeds else point in candidates,
        )
        for point in points
    )
    return Sweep(
        workload=workload,
        device=device,
        variant=variant,
        axes=tuple(dict(points[0])),
        points=sweep_points,
        best=next((each for each in sweep_points if each.point == best), None),
    )


def _measured(trials: Sequence[Trial], variant: str) -> list[Measure]:
    between_s = between_epochs_s(trials, variant)
    result = [measure_of(each, variant, between_s) for each in trials if each.status is Status.OK]
    return [each for each in result if each is not None]


def _point(
    point: Point,
    trials: Sequence[Trial],
    result: Sequence[Measure],
    *,
    best: Mapping[int, float],
    tied: bool | None,
) -> SweepPoint:
    representative = min(trials, key=lambda each: _STATUSES.index(each.status), default=None)
    throughput = estimate([each.throughput for each in result], "samples/s")
    return SweepPoint(
        point=point,
        status=representative.status if representative else None,
        message="" if throughput else representative.message if representative else "Not run yet.",
        throughput=throughput,
        over_best=ratio(by_index(result), best) if result else None,
        tied=tied,
    )
