"""How training speeds up over workers: throughput, efficiency, what travels, what exchanging takes. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from harness.analysis.align import SECOND_NS, increase
from harness.analysis.measures import Measure, by_index, measures
from harness.analysis.ratios import ratio
from harness.analysis.stats import estimate
from harness.model.analysis import Key
from harness.model.run import Placement, Run, Status, Trial
from harness.model.workers import Point, Recorded, Scaling, Traffic
from workloads.protocol import BASELINE, MODEL_ONLY, TUNED

# Variants in which gradients are exchanged.
TRAINING = (BASELINE, MODEL_ONLY, TUNED)
SENT, RECEIVED, LOOPBACK = "net_sent_bytes", "net_recv_bytes", "loopback_bytes"


def scaled(teams: Mapping[int, Recorded]) -> Scaling:
    """Return speeds, efficiency and traffic of several numbers of workers.

    Args:
        teams: number of workers -> what they recorded.
    """
    placements = {workers: team.placement for workers, team in sorted(teams.items())}
    points = tuple(
        replace(point, traffic=tuple(_traffic(teams[point.workers], point)))
        for point in scaling({workers: team.run for workers, team in teams.items()})
    )
    return Scaling(points=points, placements=placements)


def scaling(runs: Mapping[int, Run]) -> tuple[Point, ...]:
    """Return a point for each workload, training variant and number of workers.

    Args:
        runs: number of workers -> the run that the first of them recorded. Trials of one index were
            interleaved, so that ratios are taken index by index.
    """
    result = {workers: measures(run) for workers, run in sorted(runs.items())}
    keys = dict.fromkeys(key for each in result.values() for key in each if key.variant in TRAINING)
    return tuple(
        _point(key, workers, each[key], result.get(1, {}).get(key))
        for key in keys
        for workers, each in result.items()
        if key in each
    )


def _point(key: Key, workers: int, these: tuple[Measure, ...], alone: tuple[Measure, ...] | None) -> Point:
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
    trials = [item.trial for item in these]
    exchange_s = _metric(trials, "collective_s")
    return Point(
        workers=workers,
        throughput=throughput,
        efficiency=efficiency,
        step_time=step,
        exchange_s=exchange_s,
        added_s=added,
        gradient_bytes=_metric(trials, "gradient_bytes"),
        **key._asdict(),
    )


def _metric(trials: list[Trial], name: str) -> float | None:
    return _median([each.value for trial in trials for each in trial.metrics if each.name == name])


def _sent(trial: Trial, variant: str, column: str) -> Iterator[float]:
    """Yield, for each window of the variant, the bytes a second through all interfaces together."""
    windows = [
        window for window in trial.windows if window.variant == variant and window.end_ns > window.start_ns
    ]
    growths = [
        increase(series.t_ns, series.columns[name], windows)
        for series in trial.telemetry
        for name in (column, LOOPBACK)
        if series.source == "host" and name in series.columns
    ]
    for window, *grown in zip(windows, *growths, strict=True):
        if any(np.isfinite(grown)):
            yield float(np.nansum(grown)) * SECOND_NS / (window.end_ns - window.start_ns)


def _by_machine(placement: Placement) -> Mapping[int, tuple[int, ...]]:
    """Return machine -> the numbers of its workers."""
    result: dict[int, tuple[int, ...]] = {}
    for worker, machine in enumerate(placement.machines):
        result[machine] = (*result.get(machine, ()), worker)
    return result


def _recorded(team: Recorded, trial: Trial, worker: int) -> Trial | None:
    """Return a trial as one worker recorded it."""
    return trial if worker == 0 else team.others.get(trial.id, {}).get(worker)


def _traffic(team: Recorded, point: Point) -> Iterator[Traffic]:
    trials = [
        each
        for each in team.run.trials
        if (each.workload, each.device, each.status) == (point.workload, point.device, Status.OK)
    ]
    for workers in _by_machine(team.placement).values():
        shown = [each for trial in trials if (each := _recorded(team, trial, workers[0])) is not None]
        sent, received = (
            _median([rate / len(workers) for each in shown for rate in _sent(each, point.variant, column)])
            for column in (SENT, RECEIVED)
        )
        if sent is not None or received is not None:
            yield Traffic(
                nodes=tuple(team.placement.nodes[worker] for worker in workers),
                sent_bytes_per_s=sent,
                received_bytes_per_s=received,
            )


def _median(values: list[float]) -> float | None:
    return statistics.median(values) if values else None
