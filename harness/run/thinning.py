"""Thin out series, so that no peak is lost and a load that comes and goes stays visible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from harness.model.run import Run, Series, StepTimes, Trial

Floats = NDArray[np.float64]


def thin(t_s: Floats, columns: Mapping[str, Floats], points: int) -> tuple[Floats, dict[str, Floats]]:
    """Keep about `points` instants, and of each column every bucket's least and greatest value.

    A bucket gives two instants, its first and its middle; its two extremes stand there in the order in
    which they came. A bucket with nothing to read stays NaN: a gap is drawn as a gap.

    Args:
        t_s: seconds, ascending, n of them.
        columns: name -> n values.
        points: how many instants at most; fewer than four count as four.

    Returns:
        The instants, and each column at them.
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
    # argmin of a bucket without any reading points at a NaN, which is what it should give.
    return both.ravel()


def readings(run: Run) -> int:
    """Count the values of telemetry and single steps that a run holds."""
    return sum(len(each.t_ns) * (1 + len(each.columns)) for each in _series(run)) + sum(
        2 * len(each.step_ns) for trial in run.trials for each in trial.steps
    )


def thinned(run: Run, most: int) -> Run:
    """Return a run with about `most` values of telemetry and single steps, or itself when it has no more.

    All series and lists of steps are cut to one length, shorter ones stay whole. Windows, phases and
    metrics, from which speeds come, stay whole.
    """
    if readings(run) <= most:
        return run
    columns = sum(1 + len(each.columns) for each in _series(run))
    lists = sum(2 * len({each.variant for each in trial.steps}) for trial in run.trials)
    points = max(4, most // (columns + lists))
    return replace(run, trials=tuple(_thinned_trial(trial, points) for trial in run.trials))


def _series(run: Run) -> tuple[Series, ...]:
    return tuple(series for trial in run.trials for series in trial.telemetry)


def _thinned_trial(trial: Trial, points: int) -> Trial:
    windows = Counter(each.variant for each in trial.steps)
    return replace(
        trial,
        telemetry=tuple(_thinned_series(series, points) for series in trial.telemetry),
        steps=tuple(_thinned_steps(each, points // windows[each.variant]) for each in trial.steps),
    )


def _thinned_series(series: Series, points: int) -> Series:
    places = np.arange(len(series.t_ns), dtype=np.float64)
    kept, columns = thin(places, series.columns, points)
    return replace(series, t_ns=series.t_ns[kept.astype(np.int64)], columns=columns)


def _thinned_steps(steps: StepTimes, most: int) -> StepTimes:
    """Keep some steps, evenly over the sorted durations, the shortest and the longest among them."""
    keep = max(2, most)
    if keep >= len(steps.step_ns):
        return steps
    ranks = np.linspace(0, len(steps.step_ns) - 1, keep).round().astype(np.int64)
    at = np.sort(np.argsort(steps.step_ns, kind="stable")[ranks])
    return replace(steps, step_ns=steps.step_ns[at])
