"""Choose the figures of a report and the trials with a timeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from harness.model.analysis import Analysis
from harness.model.run import Status, Trial
from reports.charts import Figure
from reports.latency_chart import latency_figure
from reports.machine_chart import machine_figure, soaked
from reports.names import devices_of, is_gpu, titles_of
from reports.pipeline_chart import pipeline_figure
from reports.published_chart import published_figure
from reports.scaling_chart import scaling_figure
from reports.speeds_chart import speeds_figure
from reports.step_time_chart import step_time_figure
from reports.sweep_chart import sweep_figure
from reports.telemetry_chart import telemetry_figure
from reports.trials_chart import trials_figure
from workloads.protocol import MACHINE, SOAK

_TIMELINES = 24
_POINTS = 60_000  # of all timelines together; about 5 bytes each


def figures_of(analysis: Analysis) -> Mapping[str, Figure]:
    """Return id -> figure for all available data, timelines last."""
    titles, devices = titles_of(analysis), devices_of(analysis)
    trials = shown_trials(analysis)
    sweeps = enumerate(analysis.sweeps, 1)
    built = [
        *(sweep_figure(each, titles[each.workload], number) for number, each in sweeps),
        machine_figure(analysis),
        step_time_figure(analysis),
        pipeline_figure(analysis),
        speeds_figure(analysis),
        scaling_figure(analysis),
        latency_figure(analysis),
        trials_figure(analysis),
        published_figure(analysis),
    ]
    limits = [gpu.power_limit_w for gpu in analysis.run.manifest.gpus if gpu.power_limit_w is not None]
    limit_w, points = max(limits, default=None), _POINTS // max(1, len(trials))
    for number, trial in enumerate(trials, 1):
        title = f"{titles[trial.workload]} on {devices[trial.device]}"
        if trial.status is not Status.OK:
            title += f" ({trial.status.value}, trial {trial.id})"
        id_ = f"figure-telemetry-{number}"
        built.append(telemetry_figure(trial, id_, title, points=points, power_limit_w=limit_w))
    for trial in analysis.run.trials:
        if trial.workload == MACHINE and any(window.variant == SOAK for window in trial.windows):
            title = f"Load without pause, {devices[trial.device]}"
            figure = telemetry_figure(
                soaked(trial),
                f"figure-soak-{trial.device}",
                title,
                points=_POINTS // 4,
                power_limit_w=limit_w,
            )
            built.append(replace(figure, soak=True) if figure else None)
    return {figure.id: figure for figure in built if figure is not None}


def shown_trials(analysis: Analysis) -> tuple[Trial, ...]:
    """Return the trials with a timeline.

    The last successful trial of each workload and device, GPUs first, is followed by unsuccessful trials.
    """
    trials = [trial for trial in analysis.run.trials if trial.workload != MACHINE]
    last = {(trial.workload, trial.device): trial for trial in trials if trial.status is Status.OK}
    shown = sorted(last.values(), key=lambda trial: not is_gpu(trial.device))
    return tuple([*shown, *(trial for trial in trials if trial.status is not Status.OK)][:_TIMELINES])
