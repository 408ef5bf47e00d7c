"""How training speeds up over workers: throughput, efficiency, what travels, what exchanging takes. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.analysis.align import SECOND_NS
from harness.analysis.measures import Key, Measure, by_index, measures
from harness.analysis.stats import estimate, ratio
from harness.model import Estimate, Run, Trial
from workloads.protocol import AS_WRITTEN, MODEL_ONLY, TUNED

# Legs in which gradients are exchanged.
TRAINING = (AS_WRITTEN, MODEL_ONLY, TUNED)
NETWORK, SENT = "network", "net_sent_bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One leg of one workload over so many workers.

    Attributes:
        throughput: samples/s of all workers together.
        efficiency: throughput over `workers` times that of one worker, 1 when nothing is lost; None without
            a run of one worker.
        step_time: seconds a step.
        exchange_s: one exchange of all gradients by itself: the most it can add to a step.
        added_s: what a step takes longer than with one worker: what exchanging, and waiting for the slowest,
            do add.
        gradient_bytes: what one worker has to exchange a step.
        sent_bytes_per_s: through all interfaces of the first worker's machine while it trained.
    """

    workload: str
    device: str
    leg: str
    workers: int
    throughput: Estimate
    efficiency: Estimate | None
    step_time: Estimate
    exchange_s: float | None
    added_s: float | None
    gradient_bytes: float | None
    sent_bytes_per_s: float | None


def scaling(runs: Mapping[int, Run]) -> tuple[Point, ...]:
    """Return a point for each workload, training leg and number of workers.

    Args:
        runs: number of workers -> the run that the first of them recorded. Trials of one index were
            interleaved, so that ratios are taken index by index.
    """
    found = {workers: measures(run) for workers, run in sorted(runs.items())}
    keys = dict.fromkeys(key for one in found.values() for key in one if key.leg in TRAINING)
    return tuple(
        _point(key, workers, one[key], found.get(1, {}).get(key))
        for key in keys
        for workers, one in found.items()
        if key in one
    )


def _point(key: Key, workers: int, these: tuple[Measure, ...], alone: tuple[Measure, ...] | None) -> Point:
    throughput = estimate([one.throughput for one in these], "samples/s")
    step = estimate([one.step_s for one in these], "s")
    assert throughput is not None
    assert step is not None
    efficiency = None
    added = None
    if alone:
        each = {index: value / workers for index, value in by_index(these).items()}
        efficiency = ratio(each, by_index(alone))
        added = step.median - statistics.median(one.step_s for one in alone)
    trials = [one.trial for one in these]
    return Point(
        workload=key.workload,
        device=key.device,
        leg=key.leg,
        workers=workers,
        throughput=throughput,
        efficiency=efficiency,
        step_time=step,
        exchange_s=_metric(trials, "collective_s"),
        added_s=added,
        gradient_bytes=_metric(trials, "gradient_bytes"),
        sent_bytes_per_s=_median([rate for one in trials for rate in _sent(one, key.leg)]),
    )


def _metric(trials: list[Trial], name: str) -> float | None:
    return _median([one.value for trial in trials for one in trial.metrics if one.name == name])


def _sent(trial: Trial, leg: str) -> Iterator[float]:
    """Yield, for each window of the leg, the bytes a second that left through all interfaces together."""
    for window in trial.windows:
        if window.leg != leg:
            continue
        rates = [
            rate
            for series in trial.telemetry
            if series.source == NETWORK and SENT in series.columns
            and (rate := _rate(series.t_ns, series.columns[SENT], window.start_ns, window.end_ns)) is not None
        ]  # fmt: skip
        if rates:
            yield sum(rates)


def _rate(t_ns: NDArray[np.int64], values: NDArray[np.float64], start_ns: int, end_ns: int) -> float | None:
    """Return a counter's difference a second between two instants; None where it was not read."""
    known = np.isfinite(values)
    if known.sum() < 2 or t_ns[known][0] > start_ns or t_ns[known][-1] < end_ns or end_ns <= start_ns:
        return None
    first, last = np.interp([start_ns, end_ns], t_ns[known].astype(np.float64), values[known])
    return float((last - first) * SECOND_NS / (end_ns - start_ns))


def _median(values: list[float]) -> float | None:
    return statistics.median(values) if values else None
