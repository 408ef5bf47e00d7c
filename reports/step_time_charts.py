"""Charts of step-time breakdowns and of the stages of input pipelines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import altair as alt

from harness.model.analysis import Analysis, CaseResult, Pipeline, Stage, StepTime
from reports import numbers
from reports.charts import COLOUR, Figure, LegendKey, part_colour, row_figure, span, whiskers
from reports.text import SHORT_PARTS, devices_of, titles_of
from workloads.variants import BASELINE, INPUT_PARTS, Part, variant_name

_ROW_PX = 24
MOST_UNEXPLAINED = 0.5
_LETTER_PX = 7.0  # average width in a label
# Parts with a dark colour.
_WHITE_TEXT = frozenset({Part.COMPUTE, Part.FRAMEWORK, Part.EXCHANGE, Part.HOST})


def step_time_figure(analysis: Analysis) -> Figure | None:
    """Draw the breakdowns as bars of equal length, baseline above tuned; None if there are none."""
    titles, devices = titles_of(analysis), devices_of(analysis)
    panels: dict[str, dict[str, StepTime]] = {}
    for case, variant, result in analysis.variants:
        time = result.breakdown
        # Without its own variants, most of a tuned step may stay unexplained.
        if not time or (variant != BASELINE and abs(time.share(Part.UNEXPLAINED)) > MOST_UNEXPLAINED):
            continue
        alone = ", one at a time" if case.serves else ""
        label = f"{devices[case.device]} {variant_name(variant)}, batch {time.batch:,}{alone}"
        panels.setdefault(titles[case.workload], {})[label] = time
    return breakdown_figure(panels, "Shares of one step; milliseconds at the end of each bar")


def breakdown_figure(
    panels: Mapping[str, Mapping[str, StepTime]], title: str, *, common: bool = False
) -> Figure | None:
    """Draw panels of breakdowns; None if there are none.

    Args:
        panels: heading -> bar label -> breakdown.
        common: draw all bars of a panel on one time axis; otherwise all bars have equal length.
    """
    times = [time for group in panels.values() for time in group.values()]
    if not times:
        return None
    segments = {heading: list(_segments(group, common=common)) for heading, group in panels.items()}
    used = [part for part in Part if any(abs(time.share(part)) >= 0.005 for time in times)]
    return row_figure(
        "figure-step-time",
        title,
        segments,
        _step_layers,
        table={
            "Workload": "heading",
            "Bar": "row",
            "Part": "part",
            "ms per step": "ms",
            "95 % interval": "interval",
            "Whole step": "text",
        },
        row_px=_ROW_PX,
        spacing=27,
        legend=tuple(LegendKey(colour=part_colour(part), shape="bar", name=part.value) for part in used),
    )


def _segments(times: Mapping[str, StepTime], *, common: bool) -> Iterator[dict[str, Any]]:
    """Yield the parts of each bar, from left to right; negative unexplained time has no width.

    Parts with the same short name share one label, on the widest of them.
    """
    longest = max(map(_drawn, times.values()))
    for label, time in times.items():
        names = {part: SHORT_PARTS.get(part, part.value) for part in time.parts}
        widest = {names[part]: part for part in sorted(time.parts, key=lambda part: time.parts[part].median)}
        end, text = 0.0, f"{numbers.milliseconds(time.total.median)} ms"
        for part, value in time.parts.items():
            start, end = end, end + max(value.median, 0.0) / (longest if common else _drawn(time))
            share = numbers.percent(
                time.share(*(other for other in time.parts if names[other] == names[part]))
            )
            named = widest[names[part]] is part
            yield {
                "row": label, "part": f"{part.value} {numbers.percent(time.share(part))}",
                "ms": numbers.milliseconds(value.median), "start": start, "middle": (start + end) / 2, "end": end,
                "interval": f"{numbers.milliseconds(value.low)} to {numbers.milliseconds(value.high)}",
                "long": f"{names[part]} {share}" if named else "", "short": share if named else "",
                "colour": part_colour(part), "text": text,
                "ink": f"var(--segment-{'light' if part in _WHITE_TEXT else 'dark'})",
            }  # fmt: skip
            text = ""  # once for each bar


def _drawn(time: StepTime) -> float:
    """Return the total of the drawn parts in seconds."""
    return sum(value.median for value in time.parts.values() if value.median > 0) or 1.0


def _step_layers(number: int, base: alt.Chart) -> tuple[alt.Chart, ...]:
    scale = alt.Scale(domain=[0, 1])
    # Vega numbers the scales of the panels. A label is drawn only if it fits its segment.
    width = f"scale('concat_{number}_x', datum.end) - scale('concat_{number}_x', datum.start)"
    fitting = (
        f"{width} > {_LETTER_PX} * length(datum.{name}) + 6 ? datum.{name} : " for name in ("long", "short")
    )
    bars = base.mark_bar(height=_ROW_PX - 7, stroke="var(--paper)", strokeWidth=1).encode(
        x=alt.X("start:Q", scale=scale, axis=None),
        x2=alt.X2("end:Q"),
        tooltip=["part:N", alt.Tooltip("ms:N", title="ms per step"), "interval:N"],
        color=COLOUR,
    )
    labels = base.mark_text(text=alt.expr(f"{''.join(fitting)}''"), baseline="middle", fontWeight=600).encode(
        x=alt.X("middle:Q", scale=scale, axis=None), color=alt.Color("ink:N", scale=None)
    )
    return bars, labels


def is_input_shown(case: CaseResult) -> bool:
    """Return whether the input of a case was measured alone and is a finding."""
    return case.pipeline is not None and any(each.parts == INPUT_PARTS for each in case.findings)


def pipeline_figure(analysis: Analysis) -> Figure | None:
    """Draw the stages of each shown pipeline; None if there are none."""
    titles, devices = titles_of(analysis), devices_of(analysis)
    panels = {
        f"{titles[case.workload]}, {devices[case.device]}{_use(case.pipeline)}": [
            _stage_record(stage) for stage in case.pipeline.stages
        ]
        for case in analysis.cases
        if case.pipeline and case.pipeline.stages and is_input_shown(case)
    }
    if not panels:
        return None
    columns = {"Workload": "heading", "Stage": "row", "Time per sample": "text", "95 % interval": "interval"}
    return row_figure(
        "figure-pipeline",
        "Time added by each stage, µs per sample",
        panels,
        _pipeline_layers,
        table=columns,
    )


def _use(pipeline: Pipeline) -> str:
    """Return a text with the number of CPUs that a pipeline uses alone."""
    if not pipeline.cpus_used or not pipeline.cpus:
        return ""
    return f": uses {numbers.number(pipeline.cpus_used, 2)} of {numbers.number(pipeline.cpus, 2)} CPUs"


def _stage_record(stage: Stage) -> dict[str, Any]:
    return {
        **span(stage.cost, 1e6),
        "row": stage.name,
        "text": numbers.duration(stage.cost.median),
        "interval": f"{numbers.duration(stage.cost.low)} to {numbers.duration(stage.cost.high)}",
    }


def _pipeline_layers(number: int, base: alt.Chart) -> tuple[alt.Chart, ...]:
    bars = base.mark_bar(height=10, fill="var(--part-input-wait)").encode(
        x=alt.X("value:Q", axis=alt.Axis(title=None, tickCount=5), scale=alt.Scale(zero=True))
    )
    return bars, whiskers(base)
