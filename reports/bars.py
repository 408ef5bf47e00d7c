"""Horizontal bars with intervals, published numbers as hollow diamonds, and the figures at the right."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.model.analysis import Estimate, Summary
from reports import numbers
from reports.names import device_name, is_gpu, variant_name
from workloads.protocol import TUNED

ROW_PX = 22
_TWO_LINES_PX = 32
_NOTHING = "\u200b"  # a space of no width
_LETTERS = 25  # in a line of a label
_LABELS_PX = (70, 172)
_LETTER_PX = 6.2
_BAR_PX = 12
_ROOM = 1.45  # of the widest bar: the figures stand to its right on a telephone too


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One row: `low` and `high` are None without an interval, `published` draws a diamond and no bar."""

    label: str
    value: float
    text: str
    source: str
    interval: str = ""
    low: float | None = None
    high: float | None = None
    colour: str = ""
    published: bool = False


def colour(device: str, variant: str) -> str:
    """Give the colour of a device's variant: lighter baseline, full when tuned."""
    return f"var(--{'gpu' if is_gpu(device) else 'cpu'}{'' if variant == TUNED else '-soft'})"


def estimate_bar(label: str, value: Estimate, *, fill: str, trial_ids: Sequence[str]) -> Bar:
    """Make a bar of a median and its interval."""
    whiskers = value.n > 1
    return Bar(
        label=label,
        value=value.median,
        low=value.low if whiskers else None,
        high=value.high if whiskers else None,
        text=numbers.estimate(value),
        interval=numbers.interval(value),
        colour=fill,
        source=", ".join(trial_ids),
    )


def row_label(summary: Summary) -> str:
    """Name a summary's row: device and variant."""
    return f"{device_name(summary.device)} {variant_name(summary.variant)}"


def labels_px(labels: Iterable[str]) -> int:
    """Say how much room a figure's row labels need, within limits; longer ones are broken or cut short."""
    low, high = _LABELS_PX
    longest = max((len(line) for label in labels for line in label.split("\n")), default=0)
    return min(max(round(longest * _LETTER_PX) + 14, low), high)


def broken(label: str) -> str:
    """Break a label that is too long for one line into two."""
    lines = textwrap.wrap(label, _LETTERS, max_lines=2, placeholder=" …", break_long_words=True)
    return "\n".join(lines) or label


def _told_apart(bars: Sequence[Bar]) -> list[Bar]:
    """Break long labels, and give bars of one label a row each: numbers of one system, published twice."""
    seen: dict[str, int] = {}
    found = []
    for bar in bars:
        label = broken(bar.label)
        seen[label] = seen.get(label, 0) + 1
        found.append(replace(bar, label=label + _NOTHING * (seen[label] - 1)))
    return found


def row_axis(room_px: int) -> dict[str, Any]:
    """Encode the rows by their labels, in the order in which they come."""
    # Vega sets the first of two lines at the row's middle; half a line higher they are centred together.
    two_lines = {"test": "indexof(datum.label, '\\n') >= 0", "value": "bottom"}
    axis = {
        "minExtent": room_px, "maxExtent": room_px, "labelLimit": room_px - 10, "ticks": False,
        "labelExpr": "split(datum.label, '\\n')",
        "labelBaseline": {"condition": two_lines, "value": "middle"},
    }  # fmt: skip
    return {"field": "row", "type": "nominal", "sort": None, "title": None, "axis": axis}


def panel_title(text: str, room_px: int) -> dict[str, Any]:
    """Set a panel's title flush with the left edge of labels that take up `room_px`."""
    return {"text": text, "dx": -room_px}


def bar_panels(groups: Sequence[tuple[str, Sequence[Bar]]], *, unit: str) -> tuple[list[dict[str, Any]], int]:
    """Draw groups of rows under their titles, and say how much room their labels take."""
    groups = [(title, _told_apart(bars)) for title, bars in groups]
    room_px = labels_px(bar.label for _, bars in groups for bar in bars)
    return [_panel(title, bars, unit, room_px) for title, bars in groups], room_px


def _panel(title: str, bars: Sequence[Bar], unit: str, room_px: int) -> dict[str, Any]:
    """Draw one group of rows on a scale of its own that begins at zero."""
    top = max((bar.high or bar.value for bar in bars), default=1.0) or 1.0
    x = {
        "field": "value",
        "type": "quantitative",
        "axis": None,
        "scale": {"domain": [0, top * _ROOM], "nice": False},
    }
    y = row_axis(room_px)
    tooltip = [
        {"field": "row", "title": "what", "type": "nominal"},
        {"field": "text", "title": unit, "type": "nominal"},
        {"field": "interval", "title": "95 % interval", "type": "nominal"},
        {"field": "from", "title": "from", "type": "nominal"},
    ]
    measured = [_row(bar) for bar in bars if not bar.published]
    published = [_row(bar) for bar in bars if bar.published]
    fill = {"field": "colour", "type": "nominal", "scale": None}
    layers: list[dict[str, Any]] = [
        {
            "data": {"values": measured},
            "mark": {"type": "bar", "height": _BAR_PX},
            "encoding": {"x": x, "y": y, "fill": fill, "tooltip": tooltip},
        },
        {
            "data": {"values": measured},
            "transform": [{"filter": "isValid(datum.low)"}],
            "mark": {"type": "rule", "stroke": "var(--ink)", "strokeWidth": 1.5},
            "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "y": y},
        },
        {
            "data": {"values": [_row(bar) for bar in bars]},
            "mark": {"type": "text", "align": "right", "baseline": "middle", "fill": "var(--ink)"},
            "encoding": {"x": {"value": "width"}, "y": y, "text": {"field": "text"}, "tooltip": tooltip},
        },
    ]
    if published:
        diamond = {
            "type": "point", "shape": "diamond", "size": 90, "stroke": "var(--ink)", "strokeWidth": 1.5,
            "fill": "var(--paper)",
        }  # fmt: skip
        encoding = {"x": x, "y": y, "tooltip": tooltip}
        layers.append({"data": {"values": published}, "mark": diamond, "encoding": encoding})
    step = _TWO_LINES_PX if any("\n" in bar.label for bar in bars) else ROW_PX
    return {"title": panel_title(title, room_px), "height": {"step": step}, "layer": layers}


def _row(bar: Bar) -> dict[str, Any]:
    return {
        "row": bar.label, "value": bar.value, "low": bar.low, "high": bar.high, "text": bar.text,
        "interval": bar.interval, "colour": bar.colour, "from": bar.source,
    }  # fmt: skip
