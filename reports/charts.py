"""What a figure of the report is, and the look that all of them share.

Colours are names of CSS variables: the same drawing, interactive or still, follows light, dark and print.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import vl_convert

from reports.text import harmless

PRINT_WIDTH_PX = 700  # what fits A4 and Letter between their margins at the size it is drawn

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
        zoomable: whether the horizontal axis is bound to a selection called "zoom" on the field "t".
        trial_ids: where the numbers come from.
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
    zoomable: bool = False
    extent_s: float = 0.0
    trial_ids: tuple[str, ...] = field(default=())


def chart(panels: list[dict[str, Any]], **rest: Any) -> dict[str, Any]:
    """Stack panels into one specification in the report's style."""
    return {"vconcat": panels, "bounds": "flush", "spacing": 14, "config": CONFIG, **rest}


def sized(spec: Spec, width_px: int) -> dict[str, Any]:
    """Copy a specification with every panel made `width_px` wide."""
    copied = {**spec, "vconcat": [{**panel, "width": width_px} for panel in spec["vconcat"]]}
    return copied


def still(figure: Figure) -> str:
    """Draw a figure as SVG for paper and for readers without scripts."""
    return tidied(figure, vl_convert.vegalite_to_svg(still_spec(figure), allowed_base_urls=[]))


def still_spec(figure: Figure) -> dict[str, Any]:
    """Give what to draw of a figure where there is no interaction, as wide as paper."""
    return sized(figure.still_spec or figure.spec, PRINT_WIDTH_PX - figure.reserve_px)


def tidied(figure: Figure, svg: str) -> str:
    """Make an SVG of a figure fit to stand in a page beside others."""
    svg = harmless(svg)
    numbers: dict[str, int] = {}
    svg = _CLIP.sub(lambda clip: f"{clip[1]}{figure.id}-clip{numbers.setdefault(clip[2], len(numbers))}", svg)
    return _PATH.sub(lambda path: _DIGITS.sub(r"\1", path.group()), svg)


FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', 'Liberation Sans', Arial, sans-serif"

CONFIG: Spec = {
    "aria": False,  # the wrapper is one image with a description, and a table follows it
    "background": None,
    "font": FONT,
    "padding": {"left": 0, "top": 2, "right": 2, "bottom": 2},
    "view": {"stroke": None},
    "title": {
        "color": "var(--ink)", "fontSize": 12, "fontWeight": 600, "anchor": "start", "frame": "group",
        "offset": 6,
    },
    "axis": {
        "labelColor": "var(--ink-2)", "labelFontSize": 11, "titleColor": "var(--ink-2)", "titleFontSize": 11,
        "titleFontWeight": "normal", "gridColor": "var(--rule)", "domain": False, "tickColor": "var(--rule)",
        "labelPadding": 6,
    },
    "text": {"fontSize": 11, "fill": "var(--ink)"},
    "line": {"strokeWidth": 1.2, "strokeJoin": "round"},
}  # fmt: skip
