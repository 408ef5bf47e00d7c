"""What a figure of a report is, and the look that all of them share.

Colours are names of CSS variables: the same drawing, interactive or still, follows light, dark and print.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import vl_convert
from markupsafe import Markup

from harness.model.analysis import Estimate
from reports.escaping import harmless
from reports.names import is_gpu

PRINT_WIDTH_PX = 700  # what fits A4 and Letter between their margins at the size it is drawn
INK, INK_2, RULE = "var(--ink)", "var(--ink-2)", "var(--rule)"

Spec = Mapping[str, Any]
Panel = Mapping[str, Any]  # a heading, a height, and layers of alt.Chart
COLOUR = alt.Color("colour:N", scale=None)  # of records that name their own

# A tenth of a pixel is enough: the digits beyond make up half of a drawing's size.
_PATH = re.compile(r' d="[^"]*"')
_DIGITS = re.compile(r"(\.\d)\d+")
# Vega counts clip paths up through all it draws: a page needs names that no other drawing in it has.
_CLIP = re.compile(r'(id="|url\(#)clip(\d+)')


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The numbers behind a figure, as text."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One entry of a legend: a CSS colour, how it is drawn (a class of report.css), and its name."""

    colour: str
    shape: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A chart, what it shows in words, and the table behind it.

    Attributes:
        id: the element's id in the page.
        spec: Vega-Lite; a concatenation of panels of equal width.
        reserve_px: width that the panels' axes take up beside them.
        extent_s: of a figure whose horizontal axis is bound to a selection called "zoom", its end.
        opens_s: the stretch of it that is shown first; None for all.
    """

    id: str
    title: str
    spec: Spec
    table: Table
    reserve_px: int
    legend: tuple[Key, ...] = ()
    extent_s: float = 0.0
    opens_s: tuple[float, float] | None = None

    @property
    def zoomable(self) -> bool:
        """Whether it has a time axis to zoom."""
        return self.extent_s > 0


def stacked(panels: Sequence[Panel], *, spacing: int = 14, **rest: Any) -> Spec:
    """Return the specification of panels under each other, in the report's style.

    Args:
        rest: other properties of the whole, as `params`.
    """
    # Altair's own layering and concatenation copy every mark many times over, and rename them.
    context: dict[str, Any] = {"top_level": False, "datasets": {}}
    made = [
        {**each, "layer": [layer.to_dict(validate=False, context=context) for layer in each["layer"]]}
        for each in panels
    ]
    whole = {"vconcat": made, "datasets": context["datasets"], "bounds": "flush", "spacing": spacing}
    return {**whole, "config": CONFIG, **rest}


def panel(
    *layers: alt.Chart, height_px: int = 0, row_px: int = 0, heading: str = "", labels_px: int = 0
) -> Panel:
    """Return layers as one panel, so high or with rows so high.

    Args:
        heading: flush with the left edge of labels that take up `labels_px`.
    """
    made: Panel = {"height": height_px or {"step": row_px}, "layer": layers}
    return {**made, "title": {"text": heading, "dx": -labels_px}} if heading else made


def rows(data: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return records as a chart's own data; the same records are stored once in a figure."""
    return {"values": list(data)}


def labels_axis(width_px: int, **more: Any) -> alt.Axis:
    """Return the axis of labels, which takes up so many pixels."""
    fixed = {"minExtent": width_px, "maxExtent": width_px, "labelLimit": width_px - 6, "ticks": False}
    return alt.Axis(**{"title": None, **fixed, **more})


def labelled(records: Sequence[Mapping[str, Any]], labels_px: int) -> alt.Chart:
    """Return a chart of records with a row for each `row`, in their order."""
    order = list(dict.fromkeys(record["row"] for record in records))
    made: alt.Chart = alt.Chart(rows(records)).encode(
        y=alt.Y("row:N", sort=order, axis=labels_axis(labels_px))
    )
    return made


def whiskers(base: alt.Chart) -> alt.Chart:
    """Return the intervals of records, from `low` to `high`."""
    made: alt.Chart = base.mark_rule(clip=True).encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"))
    return made


def beside(base: alt.Chart, field: str = "text") -> alt.Chart:
    """Return a text for each row, to the right of the panel."""
    made: alt.Chart = base.mark_text(align="left", baseline="middle", dx=8).encode(
        x=alt.value("width"), text=alt.Text(f"{field}:N")
    )
    return made


def span(value: Estimate, scale: float = 1.0) -> dict[str, float]:
    """Return a median and its interval as fields of a record."""
    return {"value": value.median * scale, "low": value.low * scale, "high": value.high * scale}


def _log_axis(values: Sequence[float], margin: float, format_: str) -> alt.X:
    low, high = min(values) / margin, max(values) * margin
    axis = alt.Axis(title=None, tickCount=5, format=format_)
    return alt.X("value:Q", scale=alt.Scale(type="log", domain=[low, high], nice=False), axis=axis)


def dot_plot(
    id_: str,
    title: str,
    panels: Mapping[str, Sequence[Mapping[str, Any]]],
    *,
    labels_px: int,
    text_px: int,
    row_px: int = 16,
    around: float = 0.0,
    table: Table | Mapping[str, str],
    references: Sequence[Mapping[str, Any]] = (),
    legend: tuple[Key, ...] = (),
) -> Figure:
    """Draw panels of dots on logarithmic axes, each with its interval and a text at the right.

    Args:
        panels: heading -> records with a `row`, which several may share, `text`, `name` for the tooltip, a `colour`
            and, where there is something to draw, `value`, `low` and `high`.
        around: for ratios: the axis has 1 with at least this on both sides, and a line there.
        table: the numbers behind it; or of a table of all records, name of a column -> field, "heading" being one.
        references: records of other machines in the same rows, drawn as diamonds.
    """
    drawn = []
    for heading, records in panels.items():
        ends = [
            record[end]
            for record in (*records, *references)
            for end in ("value", "low", "high")
            if end in record
        ]
        x = (
            _log_axis([*ends, 1 / around, around], 1.02, "~g")
            if around
            else _log_axis(ends or [1.0], 1.3, "~s")
        )
        base = labelled(records, labels_px)
        marks = {"x": x, "tooltip": [alt.Tooltip(f"{name}:N") for name in ("row", "name", "text")]}
        others = base.properties(data=rows(references)).mark_point(
            shape="diamond", size=70, fill="var(--paper)", strokeWidth=1.5
        )
        layers = [
            *([_unity(x)] if around else []),
            *([others.encode(stroke=alt.Stroke("colour:N", scale=None), **marks)] if references else []),
            whiskers(base),
            base.mark_point(filled=True, size=56, opacity=0.85).encode(color=COLOUR, **marks),
            beside(base),
        ]
        drawn.append(panel(*layers, heading=heading, labels_px=labels_px, row_px=row_px))
    return Figure(
        id=id_,
        title=title,
        spec=stacked(drawn, spacing=44),
        table=table if isinstance(table, Table) else records_table(panels, table),
        reserve_px=labels_px + text_px,
        legend=legend,
    )


def records_table(panels: Mapping[str, Sequence[Mapping[str, Any]]], columns: Mapping[str, str]) -> Table:
    """Return a table of all records: name of a column -> field, "heading" being one."""
    rows = (
        tuple({"heading": heading, **record}[field] for field in columns.values())
        for heading, records in panels.items()
        for record in records
    )
    return Table(header=tuple(columns), rows=tuple(rows))


def _unity(x: alt.X) -> alt.Chart:
    """Return the line at 1, where two speeds are the same."""
    line = alt.Chart(rows([{"value": 1.0}]))
    made: alt.Chart = line.mark_rule(stroke=INK_2, strokeWidth=1, strokeDash=[4, 3]).encode(x=x)
    return made


def device_colour(device: str) -> str:
    """Return the CSS colour of all that was measured on a device."""
    return "var(--gpu)" if is_gpu(device) else "var(--cpu)"


def still(figure: Figure) -> Markup:
    """Draw a figure as SVG for paper and for readers without scripts."""
    width = PRINT_WIDTH_PX - figure.reserve_px
    sized = {**figure.spec, "vconcat": [{**each, "width": width} for each in figure.spec["vconcat"]]}
    svg = harmless(vl_convert.vegalite_to_svg(sized, allowed_base_urls=[]))
    shown: dict[str, int] = {}
    svg = _CLIP.sub(lambda clip: f"{clip[1]}{figure.id}-clip{shown.setdefault(clip[2], len(shown))}", svg)
    return Markup(_PATH.sub(lambda path: _DIGITS.sub(r"\1", path.group()), svg))  # noqa: S704 - Vega escapes text


FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Liberation Sans', Arial, sans-serif"

CONFIG: Spec = {
    "aria": False,  # the wrapper is one image with a description, and a table follows it
    "background": None,
    "font": FONT,
    "padding": {"left": 0, "top": 2, "right": 2, "bottom": 2},
    "view": {"stroke": None},
    "title": {
        "color": INK, "fontSize": 12, "fontWeight": 600, "anchor": "start", "frame": "group", "offset": 3,
    },
    "axis": {
        "labelColor": INK_2, "labelFontSize": 11, "titleColor": INK_2, "titleFontSize": 11,
        "titleFontWeight": "normal", "gridColor": RULE, "domain": False, "tickColor": RULE, "labelPadding": 6,
    },
    "text": {"fontSize": 11, "fill": INK},
    "line": {"strokeWidth": 1.4, "strokeJoin": "round"},
    "rule": {"stroke": INK, "strokeWidth": 1.5},
}  # fmt: skip
