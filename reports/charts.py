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

from reports.text import harmless

PRINT_WIDTH_PX = 700  # what fits A4 and Letter between their margins at the size it is drawn
INK, INK_2, RULE = "var(--ink)", "var(--ink-2)", "var(--rule)"

Spec = Mapping[str, Any]

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
        title, description: the caption, and what a reader who does not see the chart should know.
        spec: Vega-Lite; a concatenation of panels of equal width.
        still_spec: what to draw where there is no interaction, when it differs from `spec`.
        reserve_px: width that the panels' axes take up beside them.
        rank: lower ranks are drawn as still pictures first.
        extent_s: of a figure whose horizontal axis is bound to a selection called "zoom", its end.
        opens_s: the stretch of it that is shown first; None for all.
    """

    id: str
    title: str
    description: str
    spec: Spec
    table: Table
    reserve_px: int
    still_spec: Spec | None = None
    rank: int = 0
    legend: tuple[Key, ...] = ()
    extent_s: float = 0.0
    opens_s: tuple[float, float] | None = None

    @property
    def zoomable(self) -> bool:
        """Whether it has a time axis to zoom."""
        return self.extent_s > 0


def stacked(panels: Sequence[alt.Chart | alt.LayerChart], *, spacing: int = 14) -> dict[str, Any]:
    """Return the specification of panels under each other, in the report's style."""
    spec: dict[str, Any] = alt.vconcat(*panels, spacing=spacing, bounds="flush").to_dict()
    return {**{name: spec[name] for name in spec if name not in ("$schema", "config")}, "config": CONFIG}


def chart(panels: list[dict[str, Any]], **rest: Any) -> dict[str, Any]:
    """Return the specification of panels that are written out, in the report's style."""
    return {"vconcat": panels, "bounds": "flush", "spacing": 14, "config": CONFIG, **rest}


def layered(
    *layers: alt.Chart | alt.LayerChart, heading: str = "", labels_px: int = 0, row_px: int
) -> alt.LayerChart:
    """Return layers as one panel of rows of `row_px`, its heading flush with the labels."""
    panel = alt.LayerChart(layer=list(layers)).properties(height=alt.Step(row_px))
    made: alt.LayerChart = panel.properties(title=title(heading, labels_px)) if heading else panel
    return made


def rows(data: Sequence[Mapping[str, Any]]) -> alt.InlineData:
    """Return records as a chart's own data."""
    return alt.InlineData(values=[dict(each) for each in data])


def labels_axis(width_px: int) -> alt.Axis:
    """Return the axis of row labels, which takes up so many pixels."""
    return alt.Axis(title=None, minExtent=width_px, maxExtent=width_px, labelLimit=width_px - 8, ticks=False)


def title(text: str, width_px: int) -> alt.TitleParams:
    """Return a panel's title flush with the left edge of labels that take up so many pixels."""
    return alt.TitleParams(text, dx=-width_px)


def sized(spec: Spec, width_px: int) -> dict[str, Any]:
    """Return a specification with every panel made `width_px` wide."""
    return {**spec, "vconcat": [{**panel, "width": width_px} for panel in spec["vconcat"]]}


def still(figure: Figure) -> str:
    """Draw a figure as SVG for paper and for readers without scripts."""
    return tidied(figure, vl_convert.vegalite_to_svg(still_spec(figure), allowed_base_urls=[]))


def still_spec(figure: Figure) -> dict[str, Any]:
    """Return what to draw of a figure where there is no interaction, as wide as paper."""
    return sized(figure.still_spec or figure.spec, PRINT_WIDTH_PX - figure.reserve_px)


def tidied(figure: Figure, svg: str) -> str:
    """Make an SVG of a figure fit to stand in a page beside others."""
    svg = harmless(svg)
    seen: dict[str, int] = {}
    svg = _CLIP.sub(lambda clip: f"{clip[1]}{figure.id}-clip{seen.setdefault(clip[2], len(seen))}", svg)
    return _PATH.sub(lambda path: _DIGITS.sub(r"\1", path.group()), svg)


FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Liberation Sans', Arial, sans-serif"

CONFIG: Spec = {
    "aria": False,  # the wrapper is one image with a description, and a table follows it
    "background": None,
    "font": FONT,
    "padding": {"left": 0, "top": 2, "right": 2, "bottom": 2},
    "view": {"stroke": None},
    "title": {
        "color": INK, "fontSize": 12, "fontWeight": 600, "anchor": "start", "frame": "group", "offset": 6,
    },
    "axis": {
        "labelColor": INK_2, "labelFontSize": 11, "titleColor": INK_2, "titleFontSize": 11,
        "titleFontWeight": "normal", "gridColor": RULE, "domain": False, "tickColor": RULE, "labelPadding": 6,
    },
    "text": {"fontSize": 11, "fill": INK},
    "line": {"strokeWidth": 1.4, "strokeJoin": "round"},
}  # fmt: skip
