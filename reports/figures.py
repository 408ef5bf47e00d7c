"""Which figures a report has, and which trials it shows through time."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from harness.model.analysis import Analysis
from harness.model.comparison import Extract
from harness.model.run import Status, Trial
from reports.charts import Figure
from reports.gains_chart import gains_figure
from reports.names import device_name, titles_of
from reports.pipeline_chart import pipeline_figure
from reports.published_chart import published_figure
from reports.requests_chart import latency_figure, server_figure
from reports.step_time_chart import step_time_figure
from reports.sweep_chart import sweep_figure
from reports.telemetry_chart import lines, telemetry_figure
from reports.trials_chart import trials_figure

# Instants drawn in all timelines together, some 5 bytes each: a long run may take more room than a quick one.
_POINTS = (30_000, 100_000)
_POINTS_PER_READING = 1 / 15
_POINTS_A_LINE = (120, 2_400)
_TIMELINES = 24
_BUILDERS = (
    step_time_figure,
    latency_figure,
    server_figure,
    pipeline_figure,
    gains_figure,
    trials_figure,
)


def figures_of(analysis: Analysis, references: Sequence[Extract] = ()) -> Mapping[str, Figure]:
    """Build every figure that the run has the data for, by id, timelines last."""
    published = published_figure(analysis, references)
    built = [figure for build in _BUILDERS if (figure := build(analysis)) is not None]
    built += [published] if published else []
    return {figure.id: figure for figure in (*_sweeps(analysis), *built, *_timelines(analysis))}


def _sweeps(analysis: Analysis) -> list[Figure]:
    titles = titles_of(analysis)
    return [sweep_figure(one, titles[one.workload], number) for number, one in enumerate(analysis.sweeps, 1)]


def _timelines(analysis: Analysis) -> list[Figure]:
    titles = titles_of(analysis)
    trials = shown_trials(analysis)
    points = _points_a_line(trials)
    found = []
    for number, trial in enumerate(trials, 1):
        title = f"{titles[trial.workload]} on {device_name(trial.device)}"
        if trial.status is not Status.OK:
            title += f" ({trial.status.value}, trial {trial.id})"
        figure = telemetry_figure(
            trial, number=number, title=title, points=points, gpus=analysis.run.manifest.gpus
        )
        if figure is not None:
            found.append(figure)
    return found


def _points_a_line(trials: tuple[Trial, ...]) -> int:
    found = [line for trial in trials for line in lines(trial)]
    readings = sum(len(line.values) for line in found)
    budget = _between(int(readings * _POINTS_PER_READING), _POINTS)
    return _between(budget // max(len(found), 1), _POINTS_A_LINE)


def _between(value: int, limits: tuple[int, int]) -> int:
    return min(max(value, limits[0]), limits[1])


def shown_trials(analysis: Analysis) -> tuple[Trial, ...]:
    """Choose the trials to show through time: of each workload and device the one of middle speed, then
    those that did not end well."""
    groups: dict[tuple[str, str], list[Trial]] = {}
    for trial in analysis.run.trials:
        if trial.status is Status.OK:
            groups.setdefault((trial.workload, trial.device), []).append(trial)
    middle = [_middle(trials) for trials in groups.values()]
    bad = [trial for trial in analysis.run.trials if trial.status is not Status.OK]
    return tuple([*middle, *bad][:_TIMELINES])


def _middle(trials: list[Trial]) -> Trial:
    speeds = {trial.id: _speed(trial) for trial in trials}
    wanted = statistics.median_low(speeds.values())
    return next(trial for trial in trials if speeds[trial.id] == wanted)


def _speed(trial: Trial) -> float:
    variant = trial.windows[0].variant if trial.windows else ""
    own = [window for window in trial.windows if window.variant == variant]
    time_ns = sum(window.end_ns - window.start_ns for window in own)
    return sum(window.samples for window in own) / time_ns if time_ns else 0.0
