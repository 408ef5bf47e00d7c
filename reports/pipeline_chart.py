"""The input pipeline as a waterfall: what each stage adds to the time of a sample, beside the model's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.model.analysis import Analysis, Pipeline, Stage
from reports import numbers
from reports.bars import ROW_PX, labels_px, panel_title, row_axis
from reports.charts import Figure, Key, Table, chart
from reports.names import device_name, is_gpu
from reports.titles import titles_of

_ROOM = 1.55  # of the whole pipeline's time: the figures stand to the right of the last bar
MODEL, WRITTEN = "var(--ph-first)", "var(--ink)"


def pipeline_figure(analysis: Analysis) -> Figure | None:
    """Draw what each stage costs; None where no pipeline was drained stage by stage."""
    if not analysis.pipelines:
        return None
    titles = titles_of(analysis)
    room_px = labels_px(stage.name for one in analysis.pipelines for stage in one.stages)
    rows = tuple(
        (
            titles[one.workload], device_name(one.device), stage.name, numbers.duration(stage.cost_s),
            numbers.percent(stage.share), numbers.number(stage.ceiling), ", ".join(stage.trial_ids),
        )
        for one in analysis.pipelines
        for stage in one.stages
    )  # fmt: skip
    header = ("Workload", "Device", "Stage", "Cost a sample", "Share", "Ceiling, samples/s", "Trials")
    return Figure(
        id="figure-pipeline",
        title="The input pipeline stage by stage, time a sample",
        description="A waterfall: each bar begins where the stage before it ends, so that its length is what "
        "the stage adds. Lines mark the time that a sample takes in the model alone, and baseline.",
        spec=chart([_panel(one, titles, room_px) for one in analysis.pipelines], spacing=18),
        table=Table(header=header, rows=rows),
        reserve_px=room_px + 4,
        rank=15,
        legend=(
            *dict.fromkeys(
                Key(colour=_colour(one.device), shape="bar", name=f"stage, {device_name(one.device)}")
                for one in analysis.pipelines
            ),
            Key(colour=MODEL, shape="line", name="model alone"),
            Key(colour=WRITTEN, shape="line", name="baseline"),
        ),
        trial_ids=tuple(
            dict.fromkeys(
                trial for one in analysis.pipelines for stage in one.stages for trial in stage.trial_ids
            )
        ),
    )  # fmt: skip


def _panel(one: Pipeline, titles: Mapping[str, str], room_px: int) -> dict[str, Any]:
    whole = sum(stage.cost_s for stage in one.stages)
    # Times that would press the stages against the axis are left to the table.
    times = {
        colour: 1.0 / speed
        for colour, speed in ((MODEL, one.model), (WRITTEN, one.baseline))
        if speed and 1.0 / speed <= 3 * whole
    }
    top = max((whole * _ROOM, *(value * 1.05 for value in times.values())))
    x = {
        "field": "a",
        "type": "quantitative",
        "axis": None,
        "scale": {"domain": [0, top * 1e6], "nice": False},
    }
    y = row_axis(room_px)
    tooltip = [
        {"field": field, "title": title, "type": "nominal"}
        for field, title in (
            ("row", "stage"), ("cost", "adds"), ("share", "share"), ("ceiling", "ceiling, samples/s"),
            ("from", "trials"),
        )
    ]  # fmt: skip
    data = {"values": [_row(stage) for stage in one.stages]}
    bars = {
        "data": data,
        "mark": {"type": "bar", "height": 12, "fill": _colour(one.device)},
        "encoding": {"x": x, "x2": {"field": "b"}, "y": y, "tooltip": tooltip},
    }
    text = {
        "data": data,
        "mark": {"type": "text", "align": "right", "baseline": "middle", "fill": "var(--ink)"},
        "encoding": {"x": {"value": "width"}, "y": y, "text": {"field": "text"}, "tooltip": tooltip},
    }
    lines = [
        {
            "data": {"values": [{"a": round(value * 1e6, 3)}]},
            "mark": {"type": "rule", "stroke": colour, "strokeWidth": 1.5, "strokeDash": [4, 3]},
            "encoding": {"x": x},
        }
        for colour, value in times.items()
    ]
    title = f"{titles[one.workload]}: {device_name(one.device)}"
    return {
        "title": panel_title(title, room_px),
        "height": {"step": ROW_PX},
        "layer": [bars, *lines, text],
    }


def _row(stage: Stage) -> dict[str, Any]:
    return {
        "row": stage.name, "a": round(stage.start_s * 1e6, 3),
        "b": round((stage.start_s + stage.cost_s) * 1e6, 3),
        "text": f"{numbers.duration(stage.cost_s)} · {numbers.percent(stage.share)}",
        "cost": numbers.duration(stage.cost_s), "share": numbers.percent(stage.share),
        "ceiling": numbers.number(stage.ceiling), "from": ", ".join(stage.trial_ids),
    }  # fmt: skip


def _colour(device: str) -> str:
    return f"var(--{'gpu' if is_gpu(device) else 'cpu'})"
