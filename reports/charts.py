"""Figures of a report, their common style and colours.

Colours are CSS variables, so interactive and static drawings follow light mode, dark mode and print. They are safe for
colour-blind readers: categories use the palette of Okabe and Ito (2008) and also differ in lightness; GPUs also
differ in dashes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import vl_convert
from markupsafe import Markup

from harness.model.analysis import Estimate
from harness.model.device import is_gpu
from reports.text import harmless
from workloads.variants import Part

PRINT_WIDTH_PX = 700  # fits A4 and Letter without scaling
_LETTER_PX, _CAPITAL_PX = 6.3, 8.2  # average widths in labels
INK, INK_2, RULE = "var(--ink)", "var(--ink-2)", "var(--rule)"

Spec = Mapping[str, Any]
Panel = Mapping[str, Any]  # a heading, a height, and layers of alt.Chart
Panels = Mapping[str, Sequence[Mapping[str, Any]]]  # heading -> records
Columns = Mapping[str, str]  # name -> record field, or "heading"
COLOUR = alt.Color("colour:N", scale=None)  # each record has its own colour

# Coordinates are rounded to a tenth of a pixel, which halves the size of a drawing.
_PATH = re.compile(r' d="[^"]*"')
_DIGITS = re.compile(r"(\.\d)\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """The numbers of a figure, as text."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LegendKey:
    """A legend entry: CSS colour, shape (a class of report.css) and name."""

    colour: str
    shape: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A chart with its title and table.

    Attributes:
        spec: Vega-Lite; a concatenation of panels of equal width.
        reserve_px: width of the labels beside the panels.
        extent_s: end of the time axis, if it is bound to the selection "zoom".
        soak: whether it shows a load without pause, which belongs to the machine.
        opens_s: the part of the time axis shown first; None for all.
    """

    id: str
    title: str
    spec: Spec
    table: Table
    reserve_px: int
    legend: tuple[LegendKey, ...] = ()
    extent_s: float = 0.0
    opens_s: tuple[float, float] | None = None
    soak: bool = False


def stacked(panels: Sequence[Panel], *, labels_px: int, spacing: int, **rest: Any) -> Spec:
    """Return the specification of vertically stacked panels in the report's style.

    Args:
        labels_px: width of the labels; headings are aligned with their left edge.
        rest: other top-level properties, such as `params`.
    """
    # Altair's own layering and concatenation duplicate and rename marks.
    context: dict[str, Any] = {"top_level": False, "datasets": {}}
    specs = [
        {**panel, "layer": [layer.to_dict(validate=False, context=context) for layer in panel["layer"]]}
        for panel in panels
    ]
    whole = {"vconcat": specs, "datasets": context["datasets"], "bounds": "flush", "spacing": spacing}
    return {**whole, "config": {**CONFIG, "title": {**CONFIG["title"], "dx": -labels_px}}, **rest}


def panel(*layers: alt.Chart, heading: str, height: int | Mapping[str, int]) -> Panel:
    """Return layers as one panel; its height is in pixels, or {"step": pixels of a row}."""
    return {"title": heading, "height": height, "layer": layers}


def rows(data: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return records as inline chart data; equal records are stored only once in a figure."""
    return {"values": list(data)}


def labels_axis(width_px: int, **more: Any) -> alt.Axis:
    """Return an axis of labels with a fixed width."""
    fixed = {"minExtent": width_px, "maxExtent": width_px, "labelLimit": width_px - 6, "ticks": False}
    return alt.Axis(**{"title": None, **fixed, **more})


def whiskers(base: alt.Chart) -> alt.Chart:
    """Draw intervals from `low` to `high`."""
    chart: alt.Chart = base.mark_rule().encode(x=alt.X("low:Q"), x2=alt.X2("high:Q"))
    return chart


def span(value: Estimate, scale: float = 1.0) -> dict[str, float]:
    """Return a median and its interval as record fields."""
    return {"value": value.median * scale, "low": value.low * scale, "high": value.high * scale}


def row_figure(
    id_: str,
    title: str,
    panels: Panels,
    layers: Callable[[int, alt.Chart], Sequence[alt.Chart]],
    *,
    table: Columns | Table,
    row_px: int = 16,
    spacing: int = 44,
    legend: tuple[LegendKey, ...] = (),
) -> Figure:
    """Draw panels of rows, each with a label on its left and a text on its right.

    Args:
        panels: heading -> records with `row` (the label, which several may share) and `text`.
        layers: draws a panel, given its number and a chart of its records.
        table: the table, or its columns if it has a row for each record.
        spacing: pixels between panels, for headings and axes.
    """
    everything = [record for records in panels.values() for record in records]
    labels_px = _width_px(record["row"] for record in everything)
    drawn = []
    for number, (heading, records) in enumerate(panels.items()):
        order = list(dict.fromkeys(record["row"] for record in records))
        y = alt.Y("row:N", sort=order, axis=labels_axis(labels_px))
        base = alt.Chart(rows(records)).encode(y=y)
        texts = base.mark_text(align="left", baseline="middle", dx=8)
        texts = texts.encode(x=alt.value("width"), text=alt.Text("text:N"))
        drawn.append(panel(*layers(number, base), texts, heading=heading, height={"step": row_px}))
    return Figure(
        id=id_,
        title=title,
        spec=stacked(drawn, labels_px=labels_px, spacing=spacing),
        table=table if isinstance(table, Table) else records_table(panels, table),
        reserve_px=labels_px + _width_px(record["text"] for record in everything),
        legend=legend,
    )


def dot_plot(
    id_: str,
    title: str,
    panels: Panels,
    *,
    table: Columns | Table,
    around: float = 0.0,
    legend: tuple[LegendKey, ...] = (),
) -> Figure:
    """Draw panels of dots with intervals on logarithmic axes.

    Args:
        panels: as in `row_figure`; records also have `name` (tooltip), `colour` and, if there is a value to
            draw, `value`, `low` and `high`.
        around: for ratios: the axis spans at least 1 / `around` to `around`, with a line at 1.
    """
    x = alt.X(
        "value:Q",
        scale=alt.Scale(type="log", nice=False, padding=12),
        axis=alt.Axis(title=None, tickCount=5, format="~g" if around else "~s"),
    )
    tooltip = [alt.Tooltip(f"{name}:N") for name in ("row", "name", "text")]
    intervals = any("low" in record for records in panels.values() for record in records)

    def layers(number: int, base: alt.Chart) -> list[alt.Chart]:
        dots = base.mark_point(filled=True, size=56, opacity=0.85).encode(x=x, color=COLOUR, tooltip=tooltip)
        under = []
        if around:
            under.append(_unity(x, around))
        if intervals:
            under.append(whiskers(base))
        return [*under, dots]

    return row_figure(id_, title, panels, layers, table=table, legend=legend)


def _width_px(texts: Iterable[str]) -> int:
    """Return a width that fits each of some texts, up to half of a printed page."""
    widths = (sum(_CAPITAL_PX if letter.isupper() else _LETTER_PX for letter in text) for text in texts)
    return min(10 + round(max(widths, default=0)), PRINT_WIDTH_PX // 2)


def _unity(x: alt.X, around: float) -> alt.Chart:
    """Draw a line at 1, and invisible ones so that the axis spans at least 1 / `around` to `around`."""
    lines = {1.0: INK_2, around: "transparent", 1 / around: "transparent"}
    base = alt.Chart(rows([{"value": value, "colour": colour} for value, colour in lines.items()]))
    chart: alt.Chart = base.mark_rule(strokeWidth=1, strokeDash=[4, 3]).encode(x=x, color=COLOUR)
    return chart


def records_table(panels: Panels, columns: Columns) -> Table:
    """Return a table of all records."""
    rows = (
        tuple({"heading": heading, **record}[field] for field in columns.values())
        for heading, records in panels.items()
        for record in records
    )
    return Table(header=tuple(columns), rows=tuple(rows))


def device_colour(device: str) -> str:
    """Return the CSS colour of a device."""
    return "var(--gpu)" if is_gpu(device) else "var(--cpu)"


def still(figure: Figure) -> Markup:
    """Draw a figure as SVG for print and for pages without scripts."""
    width = PRINT_WIDTH_PX - figure.reserve_px
    # Texts on the right may be wider in the reader's font than in the one that is measured here.
    padding = {**CONFIG["padding"], "right": 20}
    panels = [{**panel, "width": width} for panel in figure.spec["vconcat"]]
    sized = {**figure.spec, "vconcat": panels, "padding": padding}
    svg = harmless(vl_convert.vegalite_to_svg(sized, allowed_base_urls=[]))
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


# Variable -> colour on a light page, colour on a dark one.
COLOURS: Mapping[str, tuple[str, str]] = {
    "paper": ("#ffffff", "#14171a"),
    "raised": ("#f5f6f8", "#1d2125"),
    "ink": ("#1a1e23", "#e7e9eb"),
    "ink-2": ("#4f5862", "#a9b1ba"),
    "rule": ("#dfe3e8", "#31373d"),
    "link": ("#1d5b96", "#8bbcf0"),
    "good": ("#1f6f4a", "#6fd0a0"),
    "notice": ("#8a5a00", "#e8b860"),
    "alert": ("#b3261e", "#ff8a80"),
    "removed": ("#fbe9e7", "#46211e"),
    "added": ("#e4f3ea", "#17382a"),
    "cpu": ("#5b6770", "#a9b4bd"),
    "gpu": ("#0072b2", "#56b4e9"),
    "part-compute": ("#0072b2", "#3d8fc4"),
    "part-launch": ("#e69f00", "#e6ab2e"),
    "part-framework": ("#d55e00", "#e07a33"),
    "part-between-epochs": ("#8c8c2e", "#b5b55c"),
    "part-input-wait": ("#cc79a7", "#d48fb6"),
    "part-input-interference": ("#e9bcd5", "#a3668a"),
    "part-copy": ("#56b4e9", "#86cbf2"),
    "part-all-reduce": ("#009e73", "#3bbf98"),
    "part-host-contention": ("#7a5c1e", "#b89a58"),
    "part-unexplained": ("#b6bcc2", "#666e76"),
    "phase-start-up": ("#c9ced4", "#4a5158"),
    "phase-first-step": ("#f3d9a4", "#6b5320"),
    "phase-warm-up": ("#f7ead0", "#4a3d20"),
    "phase-measured": ("#cfe3f1", "#1d3f57"),
    "phase-requests": ("#cdeadd", "#1d4a3a"),
    "phase-evaluation": ("#e3e6ea", "#333a41"),
}
# Lines of several GPUs differ in both.
_LINES = ("gpu", "part-framework", "part-all-reduce", "part-input-wait")
DASHES: tuple[tuple[int, ...], ...] = ((1, 0), (6, 3), (2, 2), (8, 3, 2, 3))


def part_colour(part: Part) -> str:
    """Return the CSS colour of a part of the step time."""
    return f"var(--part-{part.value.replace(' ', '-')})"


def phase_colour(kind: str) -> str:
    """Return the CSS colour of a kind of phase."""
    return f"var(--phase-{kind.replace(' ', '-')})"


def gpu_colour(index: int) -> str:
    """Return the CSS colour of a GPU's lines."""
    return f"var(--{_LINES[index % len(_LINES)]})"


def style() -> str:
    """Return the variables as CSS: light by default and in print, dark on screen if preferred."""
    light, dark = (
        "".join(f"--{name}:{colours[side]};" for name, colours in COLOURS.items()) for side in (0, 1)
    )
    return (
        f":root{{color-scheme:light dark;{light}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
    )
