"""Chart of the cost of each input pipeline stage."""

from __future__ import annotations

from typing import Any

import altair as alt

from harness.model.analysis import INPUT_PARTS, Analysis, Pipeline, Stage
from reports import charts, numbers
from reports.names import devices_of, titles_of


def shown_pipelines(analysis: Analysis) -> tuple[Pipeline, ...]:
    """Return the pipelines whose input is a finding."""
    limited = {(each.workload, each.device) for each in analysis.findings if each.parts == INPUT_PARTS}
    return tuple(each for each in analysis.pipelines if (each.workload, each.device) in limited)


def pipeline_figure(analysis: Analysis) -> charts.Figure | None:
    """Draw the stages of each shown pipeline; None if there are none."""
    shown = [pipeline for pipeline in shown_pipelines(analysis) if pipeline.stages]
    if not shown:
        return None
    titles, devices = titles_of(analysis), devices_of(analysis)
    panels = {
        f"{titles[pipeline.workload]}, {devices[pipeline.device]}{_use(pipeline)}": [
            _record(stage) for stage in pipeline.stages
        ]
        for pipeline in shown
    }
    columns = {"Workload": "heading", "Stage": "row", "Time per sample": "text", "95 % interval": "interval"}
    return charts.row_figure(
        "figure-pipeline",
        "Time added by each stage, µs per sample",
        panels,
        _layers,
        table=columns,
    )


def _use(pipeline: Pipeline) -> str:
    """Return a text with the number of CPUs that a pipeline uses alone."""
    if not pipeline.cpus_used or not pipeline.cpus:
        return ""
    return f": uses {numbers.number(pipeline.cpus_used, 2)} of {numbers.number(pipeline.cpus, 2)} CPUs"


def _record(stage: Stage) -> dict[str, Any]:
    return {
        **charts.span(stage.cost, 1e6),
        "row": stage.name,
        "text": numbers.duration(stage.cost.median),
        "interval": f"{numbers.duration(stage.cost.low)} to {numbers.duration(stage.cost.high)}",
    }


def _layers(number: int, base: alt.Chart) -> tuple[alt.Chart, ...]:
    bars = base.mark_bar(height=10, fill="var(--part-input-wait)").encode(
        x=alt.X("value:Q", axis=alt.Axis(title=None, tickCount=5), scale=alt.Scale(zero=True))
    )
    return bars, charts.whiskers(base)
