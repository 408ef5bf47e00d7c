"""The hover of timelines: cells over a panel that show the readings under the pointer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_CELLS = 160
_FINEST_S = 0.05
_RANGE = "format(datum.low, '') + (datum.high > datum.low ? ' to ' + format(datum.high, '') : '')"


def hover_layer(
    panel: int, devices: Mapping[int, str], readings: list[dict[str, Any]], x: dict[str, Any], extent_s: float
) -> dict[str, Any]:
    """Cover a panel with cells; each shows every device's least and greatest reading within it.

    Args:
        panel: its number, for the layer's name.
        devices: names for people, by the number that the readings carry as "d".
        readings: transforms that give rows of "t" (seconds), "v" and "d".
        x: the panel's horizontal encoding.
        extent_s: how long the trial took.
    """
    step = nice_step(extent_s / _CELLS)
    decimals = max(0, -math.floor(math.log10(step)))
    return {
        "name": f"hover{panel}",
        "data": {"name": "lines"},
        "transform": [
            *readings,
            {"filter": "isValid(datum.v)"},
            {"calculate": f"floor(datum.t / {step:g}) * {step:g}", "as": "t"},
            {
                "groupby": ["t", "d"],
                "aggregate": [
                    {"op": "min", "field": "v", "as": "low"},
                    {"op": "max", "field": "v", "as": "high"},
                ],
            },
            {"calculate": _RANGE, "as": "text"},
            {"pivot": "d", "value": "text", "groupby": ["t"], "op": "min"},
            {"calculate": f"datum.t + {step:g}", "as": "end"},
            {"calculate": f"format(datum.t, '.{decimals}f') + ' s'", "as": "when"},
        ],
        "mark": {"type": "rect", "clip": True},
        "encoding": {
            "x": x,
            "x2": {"field": "end"},
            "fill": {
                "value": "transparent",
                "condition": {"param": "hover", "empty": False, "value": "var(--ink)"},
            },
            "fillOpacity": {"value": 0.18},
            "tooltip": [
                {"field": "when", "title": "at", "type": "nominal"},
                *({"field": str(i), "title": name, "type": "nominal"} for i, name in devices.items()),
            ],
        },
    }


def nice_step(seconds: float) -> float:
    """Round a cell's length up to 1, 2 or 5 times a power of ten."""
    least = max(seconds, _FINEST_S)
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least * 0.999)
