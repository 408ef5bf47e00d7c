"""Chart of step-time breakdowns: a stacked bar for each workload, device and variant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import altair as alt

from harness.model.analysis import Analysis, Part, StepTime
from reports import numbers
from reports.charts import COLOUR, Figure, Key, Panel, Table, panel, row_chart, row_texts, stacked, width_px
from reports.names import SHORT_PARTS, devices_of, titles_of, variant_name
from reports.palette import part_colour

_ROW_PX = 24
_LETTER_PX = 7.0  # average width in a label
# Parts with a dark colour.
_WHITE_TEXT = frozenset({Part.COMPUTE, Part.FRAMEWORK, Part.EXCHANGE, Part.HOST})


def step_time_figure(analysis: Analysis) -> Figure | None:
    """Draw the breakdowns as bars of equal length, baseline above tuned; None if there are none."""
    titles = titles_of(analysis)
    devices = devices_of(analysis)
    panels: dict[str, dict[str, StepTime]] = {}
    for time in analysis.step_times:
        label = f"{devices[time.device]} {variant_name(time.variant)}"
        panels.setdefault(titles[time.workload], {})[label] = time
    return breakdown_figure(
        panels,
        "Shares of one step; milliseconds at the end of each bar",
    )


def breakdown_figure(
    panels: Mapping[str, Mapping[str, StepTime]],
    title: str,
    *,
    common: bool = False,
) -> Figure | None:
    """Draw panels of breakdowns; None if there are none.

    Args:
        panels: heading -> bar label -> breakdown.
        common: draw all bars of a panel on one time axis; otherwise all bars have equal length.
    """
    times = [time for group in panels.values() for time in group.values()]
    if not times:
        return None
    labels_px = width_px(label for group in panels.values() for label in group)
    used = [part for part in Part if any(abs(each.share(part)) >= 0.005 for each in times)]
    drawn = [
        _panel(number, heading, group, labels_px, common=common)
        for number, (heading, group) in enumerate(panels.items())
    ]
    return Figure(
        id="figure-step-time",
        title=title,
        spec=stacked(drawn, labels_px=labels_px, spacing=27),
        table=Table(
            header=("Workload", "Bar", "Part", "ms per step", "95 % interval", "Share"),
            rows=tuple(row for heading, group in panels.items() for row in _table(heading, group)),
        ),
        reserve_px=labels_px + width_px(_total(time) for time in times),
        legend=tuple(Key(colour=part_colour(part), shape="bar", name=part.value) for part in used),
    )


def _panel(
    number: int, heading: str, times: Mapping[str, StepTime], labels_px: int, *, common: bool
) -> Panel:
    longest = max(map(_drawn, times.values()))
    records = [
        record
        for label, time in times.items()
        for record in _segments(label, time, longest if common else _drawn(time))
    ]
    totals = [{"row": label, "text": _total(time)} for label, time in times.items()]
    scale, base = alt.Scale(domain=[0, 1]), row_chart(records, labels_px)
    bars = base.mark_bar(height=_ROW_PX - 7, stroke="var(--paper)", strokeWidth=1)
    # Vega numbers the scales of the panels. A label is drawn only if it fits its segment.
    width = f"scale('concat_{number}_x', datum.end) - scale('concat_{number}_x', datum.start)"
    fitting = (
        f"{width} > {_LETTER_PX} * length(datum.{name}) + 6 ? datum.{name} : " for name in ("long", "short")
    )
    labels = base.mark_text(text=alt.expr(f"{''.join(fitting)}''"), baseline="middle", fontWeight=600)
    sizes = {each.batch for each in times.values()}
    return panel(
        bars.encode(
            x=alt.X("start:Q", scale=scale, axis=None),
            x2=alt.X2("end:Q"),
            tooltip=[alt.Tooltip(f"{name}:N") for name in ("part", "ms", "interval")],
            color=COLOUR,
        ),
        labels.encode(x=alt.X("middle:Q", scale=scale, axis=None), color=alt.Color("text:N", scale=None)),
        row_texts(row_chart(totals, labels_px)),
        heading=f"{heading}, batch {sizes.pop():,}" if len(sizes) == 1 else heading,
        height={"step": _ROW_PX},
    )


def _total(time: StepTime) -> str:
    return f"{numbers.milliseconds(time.total.median)} ms"


def _drawn(time: StepTime) -> float:
    """Return the total of the drawn parts in seconds; negative unexplained time is not drawn."""
    return sum(value.median for value in time.parts.values() if value.median > 0) or 1.0


def _segments(label: str, time: StepTime, whole: float) -> Iterator[dict[str, Any]]:
    """Yield the segments of a bar. Parts with the same short name share one label, on the widest of them."""
    at, widest = 0.0, {}
    names = {part: SHORT_PARTS.get(part, part.value) for part in time.parts}
    for part in sorted(time.parts, key=lambda each: time.parts[each].median):
        widest[names[part]] = part
    for part, value in time.parts.items():
        if value.median <= 0:
            continue
        end = at + value.median / whole
        share = numbers.percent(time.share(*(each for each in time.parts if names[each] == names[part])))
        named = widest[names[part]] is part
        yield {
            "row": label, "part": f"{part.value} {numbers.percent(time.share(part))}", "start": at, "end": end,
            "middle": (at + end) / 2, "ms": f"{numbers.milliseconds(value.median)} ms per step",
            "interval": _interval(time, part), "long": f"{names[part]} {share}" if named else "",
            "short": share if named else "", "colour": part_colour(part),
            "text": f"var(--segment-{'light' if part in _WHITE_TEXT else 'dark'})",
        }  # fmt: skip
        at = end


def _interval(time: StepTime, part: Part) -> str:
    value = time.parts[part]
    return f"{numbers.milliseconds(value.low)} to {numbers.milliseconds(value.high)}"


def _table(heading: str, times: Mapping[str, StepTime]) -> Iterator[tuple[str, ...]]:
    for label, time in times.items():
        for part, value in time.parts.items():
            share = numbers.percent(time.share(part))
            yield heading, label, part.value, numbers.milliseconds(value.median), _interval(time, part), share
        yield heading, label, "step", numbers.milliseconds(time.total.median), "", numbers.percent(1.0)
