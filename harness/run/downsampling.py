"""Downsample time series without losing peaks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from harness.model.metrics import MetricKind, is_kind
from harness.model.run import Run, Series, Trial

Floats = NDArray[np.float64]


def downsample(t_s: Floats, columns: Mapping[str, Floats], points: int) -> tuple[Floats, dict[str, Floats]]:
    """Downsample n values of each column to about `points` instants, at least four.

    Each bucket keeps its minimum and maximum, in their original order, at its first and its middle instant. A bucket
    without values stays NaN, so that gaps remain visible.
    """
    buckets = max(points, 4) // 2
    length = -(-len(t_s) // buckets)
    if length <= 2:
        return t_s, dict(columns)
    starts = np.arange(0, len(t_s), length)
    # The last bucket may be too short to have a middle.
    at = np.minimum(np.column_stack((starts, starts + length // 2)).ravel(), len(t_s) - 1)
    return t_s[at], {name: _extremes(values, length) for name, values in columns.items()}


def _extremes(values: Floats, length: int) -> Floats:
    used = -(-len(values) // length)
    grid = np.pad(values, (0, used * length - len(values)), constant_values=np.nan).reshape(used, length)
    missing = np.isnan(grid)
    low = np.where(missing, np.inf, grid).argmin(axis=1)
    high = np.where(missing, -np.inf, grid).argmax(axis=1)
    rows = np.arange(used)
    first, second = np.minimum(low, high), np.maximum(low, high)
    both = np.column_stack((grid[rows, first], grid[rows, second]))
    # In a bucket of NaNs, argmin selects a NaN, as intended.
    return both.ravel()


def count_values(run: Run) -> int:
    """Count the telemetry values, single steps and latencies of a run."""
    return (
        sum(len(series.t_ns) * (1 + len(series.columns)) for series in _series(run))
        + sum(2 * len(steps.step_ns) for trial in run.trials for steps in trial.steps)
        + sum(len(request.latency_ns) for trial in run.trials for request in trial.requests)
    )


def downsample_run(run: Run, limit: int) -> Run:
    """Reduce telemetry, single steps and latencies of a run to about `limit` values; return `run` if it has fewer.

    All series and lists of steps and latencies are reduced to the same length; shorter ones stay complete, as do
    windows, phases and metrics, from which speeds are computed.
    """
    if count_values(run) <= limit:
        return run
    columns = sum(1 + len(series.columns) for series in _series(run))
    lists = sum(2 * len({steps.variant for steps in trial.steps}) for trial in run.trials)
    lists += sum(len(trial.requests) for trial in run.trials)
    points = max(4, limit // (columns + lists))
    return replace(run, trials=tuple(_downsample_trial(trial, points) for trial in run.trials))


def _series(run: Run) -> tuple[Series, ...]:
    return tuple(series for trial in run.trials for series in trial.telemetry)


def _downsample_trial(trial: Trial, points: int) -> Trial:
    windows = Counter(steps.variant for steps in trial.steps)
    return replace(
        trial,
        telemetry=tuple(_downsample_series(series, points) for series in trial.telemetry),
        steps=tuple(
            replace(steps, step_ns=_by_rank(steps.step_ns, points // windows[steps.variant]))
            for steps in trial.steps
        ),
        requests=tuple(
            replace(request, latency_ns=_by_rank(request.latency_ns, points)) for request in trial.requests
        ),
    )


def _downsample_series(series: Series, points: int) -> Series:
    positions = np.arange(len(series.t_ns), dtype=np.float64)
    kept, columns = downsample(positions, series.columns, points)
    at = kept.astype(np.int64)
    # A counter keeps what it was at those times: rates follow from differences.
    columns |= {
        name: values[at] for name, values in series.columns.items() if is_kind(name, MetricKind.COUNTER)
    }
    return replace(series, t_ns=series.t_ns[at], columns=columns)


def _by_rank(durations: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """Keep durations evenly spaced in their sorted order, including the shortest and the longest."""
    keep = max(2, limit)
    if keep >= len(durations):
        return durations
    ranks = np.linspace(0, len(durations) - 1, keep).round().astype(np.int64)
    return durations[np.sort(np.argsort(durations, kind="stable")[ranks])]
