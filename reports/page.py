"""Write the report of a run as an HTML page or as Markdown for a pull request."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from harness.analysis.extract import machine_name
from harness.model.analysis import Analysis
from harness.model.device import is_gpu
from harness.model.run import Status, Trial
from reports.charts import Figure
from reports.exports import results_document
from reports.frame import environment, framed
from reports.overview import description, ladders, rows, verdict
from reports.speed_charts import (
    all_reduce_figure,
    kind_figure,
    latency_figure,
    machine_figure,
    published_figure,
    scaling_figure,
    speeds_figure,
    sweep_figure,
    trials_figure,
)
from reports.step_time_charts import pipeline_figure, step_time_figure
from reports.telemetry_chart import soaked, telemetry_figure
from reports.text import devices_of, titles_of
from workloads.protocol import MACHINE, SOAK


def render_html(analysis: Analysis, *, code: str, record: str = "") -> str:
    """Return the report as one HTML page without external references.

    Args:
        record: the run to embed, packed by harness.run.recording.
    """
    figures, document = figures_of(analysis), results_document(analysis)
    digest = hashlib.sha256(record.encode()).hexdigest() if record else ""
    context = {**_context(analysis), "record": record, "digest": digest}
    return framed("page", context, figures, document=document, code=code)


def render_markdown(analysis: Analysis) -> str:
    """Return the report as GitHub Markdown, short enough for a pull request."""
    return environment(html=False).get_template("report.md").render(_context(analysis)).strip() + "\n"


def _context(analysis: Analysis) -> dict[str, Any]:
    """Return the values that templates use in addition to filters."""
    overview, devices = rows(analysis), devices_of(analysis)
    return {
        "analysis": analysis,
        "machine_name": machine_name(analysis.run.manifest),
        "description": description(analysis.run),
        "verdict": verdict(analysis, overview),
        "devices": devices,
        "rows": overview,
        "limiting": {part for row in overview if row.case.limit for part in row.case.limit.parts},
        "ladders": ladders(analysis, overview),
    }


_TIMELINES = 24
_POINTS = 60_000  # of all timelines together; about 5 bytes each


def figures_of(analysis: Analysis) -> Mapping[str, Figure]:
    """Return id -> figure for all available data, timelines last."""
    titles, devices = titles_of(analysis), devices_of(analysis)
    trials = shown_trials(analysis)
    sweeps = enumerate(analysis.sweeps, 1)
    built = [
        *(sweep_figure(sweep, titles[sweep.workload], number) for number, sweep in sweeps),
        machine_figure(analysis),
        all_reduce_figure(analysis),
        kind_figure(analysis),
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
            title += f" ({trial.status.predicate}, trial {trial.id})"
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
    last = {(trial.workload, trial.device): trial for trial in trials if trial.windows}
    shown = sorted(last.values(), key=lambda trial: not is_gpu(trial.device))
    return tuple([*shown, *(trial for trial in trials if not trial.windows)][:_TIMELINES])
