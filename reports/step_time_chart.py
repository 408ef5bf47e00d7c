"""Where a step's time goes: a stacked bar for each workload, device and variant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
# A segment narrower than this share of the axis has no room for its number.
_LABELLED = 0.07


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """A panel of bars.

    Attributes:
        rows: label -> breakdown.
        common: all on one axis of milliseconds; otherwise each bar is as long as its own step.
    """

    heading: str
    rows: dict[str, StepTime]
    common: bool = False


def step_time_figure(analysis: Analysis) -> Figure | None:
    """Draw the breakdowns, baseline above tuned, each bar one whole step; None where there are none."""
    titles = titles_of(analysis)
    devices = list(dict.fromkeys(each.device for each in analysis.step_times))
    panels: dict[str, Bars] = {}
    for time in analysis.step_times:
        panel = panels.setdefault(time.workload, Bars(heading=titles[time.workload], rows={}))
        panel.rows[f"{device_of_row(time.device, devices)} {variant_name(time.variant)}"] = time
    return breakdown_figure(
        list(panels.values()),
        "Shares of one step; milliseconds at the end of each bar",
        "A stacked bar a workload, device and variant, as shares of its own step; at its end the milliseconds.",
    )


def breakdown_figure(
    panels: Sequence[Bars], title: str, description: str, *, labels_px: int = _LABELS_PX
) -> Figure | None:
    """Draw panels of breakdowns; those of which only the whole step is known are left out."""
    shown = [
        (panel, own)
        for panel in panels
        if (
            own := {
                label: time for label, time in panel.rows.items() if set(time.parts) != {Part.UNEXPLAINED}
            }
        )
    ]
    times = [time for _, own in shown for time in own.values()]
    if not times:
        return None
    used = [part for part in Part if any(abs(each.share(part)) >= 0.005 for each in times)]
    return Figure(
        id="figure-step-time",
        title=title,
        description=f"{description} The table below has every part in milliseconds with its interval.",
        spec=stacked([_panel(panel, own, labels_px) for panel, own in shown], spacing=30),
        table=Table(
            header=("Workload", "Bar", "Part", "ms a step", "95 % interval", "Share"),
            rows=tuple(row for panel, own in shown for row in _table(panel.heading, own)),
        ),
        reserve_px=labels_px + _TOTAL_PX,
        legend=tuple(Key(colour=part_colour(part), shape="bar", name=part.value) for part in used),
    )


def _panel(panel: Bars, times: dict[str, StepTime], labels_px: int) -> alt.LayerChart:
    batches = {each.batch for each in times.values()}
    longest = max(map(_drawn, times.values())) if panel.common else None
    records = [record for label, time in times.items() for record in _segments(label, time, longest)]
    y = alt.Y("row:N", sort=list(times), axis=labels_axis(labels_px))
    scale = alt.Scale(domain=[0, 1])
    tooltip = [
        alt.Tooltip("part:N"),
        alt.Tooltip("ms:N", title="ms a step"),
        alt.Tooltip("share:N"),
        alt.Tooltip("interval:N", title="95 % interval"),
    ]
    base = alt.Chart(rows(records)).encode(y=y)
    bars = base.mark_bar(height=_ROW_PX - 7, stroke="var(--paper)", strokeWidth=1).encode(
        x=alt.X("start:Q", scale=scale, axis=None),
        x2="end:Q",
        color=alt.Color("colour:N", scale=None),
        tooltip=tooltip,
    )
    labels = base.mark_text(baseline="middle", fill="var(--segment-ink)", fontWeight=600).encode(
        x=alt.X("middle:Q", scale=scale, axis=None), text="label:N"
    )
    totals = (
        alt.Chart(rows([record for record in records if record["total"]]))
        .mark_text(align="left", baseline="middle", dx=8)
        .encode(y=y, x=alt.value("width"), text="total:N")
    )
    size = f", batch {batches.pop():,}" if len(batches) == 1 else ""
    return layered(
        bars, labels, totals, heading=f"{panel.heading}{size}", labels_px=labels_px, row_px=_ROW_PX
    )


def _drawn(time: StepTime) -> float:
    """Return the seconds of all parts that a bar shows: a negative rest is left out of the picture."""
    return sum(value.median for value in time.parts.values() if value.median > 0) or 1.0


def _segments(label: str, time: StepTime, longest: float | None) -> Iterator[dict[str, Any]]:
    whole, at = longest or _drawn(time), 0.0
    positive = {part: value for part, value in time.parts.items() if value.median > 0}
    for number, (part, value) in enumerate(positive.items()):
        width = value.median / whole
        yield {
            "row": label,
            "part": part.value,
            "start": at,
            "end": at + width,
            "middle": at + width / 2,
            "colour": part_colour(part),
            "label": numbers.percent(value.median / _drawn(time)) if width >= _LABELLED else "",
            "ms": numbers.milliseconds(value.median),
            "share": numbers.percent(time.share(part)),
            "interval": f"{numbers.milliseconds(value.low)} to {numbers.milliseconds(value.high)}",
            "total": f"{numbers.milliseconds(time.total.median)} ms" if number == 0 else "",
        }
        at += width


def _table(heading: str, times: dict[str, StepTime]) -> Iterator[tuple[str, ...]]:
    for label, time in times.items():
        for part, value in time.parts.items():
            yield (
                heading,
                label,
                part.value,
                numbers.milliseconds(value.median),
                f"{numbers.milliseconds(value.low)} to {numbers.milliseconds(value.high)}",
                numbers.percent(time.share(part)),
            )
        yield (heading, label, "step", numbers.milliseconds(time.total.median), "", numbers.percent(1.0))
