"""Where a step's time goes: a stacked bar for each workload, device and variant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt

from harness.model.analysis import Analysis, Part, StepTime
from reports import numbers
from reports.charts import Figure, Key, Table, labels_axis, layered, rows, stacked
from reports.messages import device_of_row
from reports.names import titles_of, variant_name
from reports.palette import part_colour

_LABELS_PX = 104
_TOTAL_PX = 112
_ROW_PX = 24
# A segment narrower than this share of the step has no room for its number.
_LABELLED = 0.07


def step_time_figure(analysis: Analysis) -> Figure | None:
    """Draw the breakdowns, baseline above tuned, each bar one whole step; None where there are none."""
    times = [each for each in analysis.step_times if set(each.parts) != {Part.UNEXPLAINED}]
    if not times:
        return None
    titles = titles_of(analysis)
    devices = list(dict.fromkeys(each.device for each in analysis.step_times))
    groups = {name: [each for each in times if each.workload == name] for name in titles}
    panels = [_panel(titles[name], own, devices) for name, own in groups.items() if own]
    used = [part for part in Part if any(_share(each, part) >= 0.005 for each in times)]
    return Figure(
        id="figure-step-time",
        title="Shares of one step; milliseconds at the end of each bar",
        description="A stacked bar a workload, device and variant, as shares of its own step; at its end the "
        "milliseconds of a step. The table below has every part in milliseconds with its interval.",
        spec=stacked(panels, spacing=22),
        table=Table(
            header=("Workload", "Device", "Variant", "Part", "ms a step", "95 % interval", "Share"),
            rows=tuple(_table(times, titles, devices)),
        ),
        reserve_px=_LABELS_PX + _TOTAL_PX,
        legend=tuple(Key(colour=part_colour(part), shape="bar", name=part.value) for part in used),
    )


def _share(time: StepTime, part: Part) -> float:
    return abs(time.share(part))


def _panel(heading: str, times: Sequence[StepTime], devices: Sequence[str]) -> alt.LayerChart:
    batches = {each.batch for each in times}
    records = [record for each in times for record in _segments(each, devices)]
    order = list(dict.fromkeys(record["row"] for record in records))
    y = alt.Y("row:N", sort=order, axis=labels_axis(_LABELS_PX))
    x = alt.X("start:Q", scale=alt.Scale(domain=[0, 1]), axis=None)
    tooltip = [
        alt.Tooltip("part:N"),
        alt.Tooltip("ms:N", title="ms a step"),
        alt.Tooltip("share:N"),
        alt.Tooltip("interval:N", title="95 % interval"),
    ]
    base = alt.Chart(rows(records)).encode(y=y)
    bars = base.mark_bar(height=_ROW_PX - 7, stroke="var(--paper)", strokeWidth=1).encode(
        x=x, x2="end:Q", color=alt.Color("colour:N", scale=None), tooltip=tooltip
    )
    labels = base.mark_text(baseline="middle", fill="var(--segment-ink)", fontWeight=600).encode(
        x=alt.X("middle:Q", scale=alt.Scale(domain=[0, 1]), axis=None), text="label:N"
    )
    totals = (
        alt.Chart(rows([record for record in records if record["total"]]))
        .mark_text(align="left", baseline="middle", dx=8)
        .encode(y=y, x=alt.value("width"), text="total:N")
    )
    size = f", batch {batches.pop():,}" if len(batches) == 1 else ""
    return layered(bars, labels, totals, heading=f"{heading}{size}", labels_px=_LABELS_PX, row_px=_ROW_PX)


def _segments(time: StepTime, devices: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield a bar's segments; a negative rest is left out of the picture, and the others share the bar."""
    positive = {part: value for part, value in time.parts.items() if value.median > 0}
    total = sum(value.median for value in positive.values()) or 1.0
    at = 0.0
    for number, (part, value) in enumerate(positive.items()):
        share = value.median / total
        yield {
            "row": f"{device_of_row(time.device, devices)} {variant_name(time.variant)}",
            "part": part.value,
            "start": at,
            "end": at + share,
            "middle": at + share / 2,
            "colour": part_colour(part),
            "label": numbers.percent(share) if share >= _LABELLED else "",
            "ms": numbers.milliseconds(value.median),
            "share": numbers.percent(time.share(part)),
            "interval": f"{numbers.milliseconds(value.low)} to {numbers.milliseconds(value.high)}",
            "total": f"{numbers.milliseconds(time.total.median)} ms" if number == 0 else "",
        }
        at += share


def _table(
    times: Sequence[StepTime], titles: dict[str, str], devices: Sequence[str]
) -> Iterator[tuple[str, ...]]:
    for time in times:
        own = (titles[time.workload], device_of_row(time.device, devices), variant_name(time.variant))
        for part, value in time.parts.items():
            yield (
                *own,
                part.value,
                numbers.milliseconds(value.median),
                f"{numbers.milliseconds(value.low)} to {numbers.milliseconds(value.high)}",
                numbers.percent(time.share(part)),
            )
        yield (*own, "step", numbers.milliseconds(time.total.median), "", numbers.percent(1.0))
