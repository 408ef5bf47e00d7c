"""The input pipeline: what each stage costs, and how fast input, model, baseline and tuned are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import altair as alt

from harness.model.analysis import INPUT_PARTS, Analysis, Estimate, Pipeline
from reports import numbers
from reports.charts import Figure, Panel, Table, beside, labelled, panel, stacked, whiskers
from reports.names import devices_of, titles_of, variant_name
from reports.overview import step_time
from workloads.protocol import BASELINE

_LABELS_PX = 150
_TEXT_PX = 120
_ROW_PX = 18
# Input below this share of a step is not worth a picture; xprof calls 5 % moderate.
LEAST_SHARE = 0.05


def shown_pipelines(analysis: Analysis) -> tuple[Pipeline, ...]:
    """Return the pipelines whose input takes LEAST_SHARE of the step or more."""
    return tuple(
        pipeline
        for pipeline in analysis.pipelines
        if (time := step_time(analysis, pipeline.workload, pipeline.device, BASELINE)) is not None
        and time.share(*INPUT_PARTS) >= LEAST_SHARE
    )


def pipeline_figure(analysis: Analysis) -> Figure | None:
    """Draw stages and capacities of each pipeline that matters; None where none does."""
    shown = shown_pipelines(analysis)
    if not shown:
        return None
    titles = titles_of(analysis)
    devices = devices_of(analysis)
    panels = [
        panel
        for pipeline in shown
        for panel in _panels(pipeline, f"{titles[pipeline.workload]}, {devices[pipeline.device]}")
    ]
    return Figure(
        id="figure-pipeline",
        title="Time of each stage, and capacities on one scale",
        description="Bars of the time that each stage adds to a sample, with 95 % intervals, and dots of "
        "samples a second on a logarithmic axis for the input alone, the model alone, baseline and tuned.",
        spec=stacked(panels, spacing=44),
        table=Table(
            header=("Workload", "Device", "What", "Value", "95 % interval"),
            rows=tuple(
                (titles[pipeline.workload], devices[pipeline.device], *cells)
                for pipeline in shown
                for cells in _cells(pipeline)
            ),
        ),
        reserve_px=_LABELS_PX + _TEXT_PX,
    )


def _cells(pipeline: Pipeline) -> Iterator[tuple[str, str, str]]:
    for stage in pipeline.stages:
        value = stage.cost
        span = f"{numbers.duration(value.low)} to {numbers.duration(value.high)}"
        yield f"stage {stage.name}", f"{numbers.duration(value.median)} a sample", span
    for variant, speed in pipeline.capacities.items():
        yield variant_name(variant), numbers.speed(speed), numbers.interval(speed)


def _panels(pipeline: Pipeline, heading: str) -> Iterator[Panel]:
    if pipeline.stages:
        base = labelled(
            [
                _record(stage.name, stage.cost, 1e6, numbers.duration(stage.cost.median))
                for stage in pipeline.stages
            ],
            _LABELS_PX,
        )
        bars = base.mark_bar(height=_ROW_PX - 8, fill="var(--part-input-wait)")
        x = alt.X("value:Q", axis=alt.Axis(title=None, tickCount=5), scale=alt.Scale(zero=True))
        yield _panel(f"{heading}: time of each stage, µs a sample", bars.encode(x=x), base)
    base = labelled(
        [
            _record(variant_name(variant), speed, 1.0, numbers.speed(speed))
            for variant, speed in pipeline.capacities.items()
        ],
        _LABELS_PX,
    )
    dots = base.mark_point(filled=True, size=64, fill="var(--gpu)", opacity=1)
    x = alt.X("value:Q", axis=alt.Axis(title=None, tickCount=4, format="~s"), scale=alt.Scale(type="log"))
    yield _panel(f"{heading}: samples a second", dots.encode(x=x), base)


def _record(row: str, value: Estimate, scale: float, text: str) -> dict[str, Any]:
    whole = {"row": row, "value": value.median * scale, "text": text}
    return {**whole, "low": value.low * scale, "high": value.high * scale}


def _panel(heading: str, marks: alt.Chart, base: alt.Chart) -> Panel:
    return panel(marks, whiskers(base), beside(base), heading=heading, labels_px=_LABELS_PX, row_px=_ROW_PX)
