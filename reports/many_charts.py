"""Figures of a comparison of many runs: how far they lie apart, and a map of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from harness.model.comparison import Outcome, Ratio, Versus
from reports import numbers
from reports.bars import labels_px, panel_title
from reports.charts import Figure, Key, Table, chart
from reports.compare_page import Cell, cells

_CELL_PX = 20
_WIDE = 3.0  # from here on ratios are shown on a logarithmic scale
# Seven classes of ratio, from slow to fast, by how far the runs lie apart.
_STEPS = (
    (1.2, (0.9, 0.95, 0.98, 1.02, 1.05, 1.1)),
    (3.0, (0.5, 0.75, 0.95, 1.05, 1.33, 2.0)),
    (float("inf"), (0.1, 0.33, 0.8, 1.25, 3.0, 10.0)),
)
_HEAT = tuple(f"var(--heat-{step})" for step in range(7))
OUTCOME_COLOURS = {
    Outcome.SLOWER: "var(--alert)",
    Outcome.FASTER: "var(--link)",
    Outcome.SAME: "var(--ink-2)",
    Outcome.UNKNOWN: "var(--ink-2)",
    Outcome.UNTESTED: "var(--ink-2)",
}


def _tested(versus: Versus, cell: Cell) -> list[Ratio]:
    key = (cell.workload, cell.device, cell.variant)
    return [one for one in versus.ratios if (one.workload, one.device, one.variant) == key]


def spreads_figure(versus: Versus, over: str) -> Figure | None:
    """Draw a stroke a run on the scale of its ratio, a panel for each workload, device and variant."""
    found = cells(versus, tested=True)
    if not found:
        return None
    letters = _letters(versus)
    room_px = labels_px(letters.values())
    values = [one.ratio.median for one in versus.ratios if one.tested]
    scale = {
        "type": "log" if max(values) > _WIDE * min(values) else "linear",
        "domain": [min(values), max(values)], "zero": False, "nice": False, "padding": 8,
    }  # fmt: skip
    panels = [_strokes(versus, cell, letters, room_px, scale, labels=cell is found[-1]) for cell in found]
    rows = tuple(
        (cell.name, versus.runs[one.run].label, letters[versus.runs[one.run].machine],
         numbers.ratio_estimate(one.ratio), one.outcome.value)
        for cell in found for one in _tested(versus, cell)
    )  # fmt: skip
    return Figure(
        id="figure-spreads",
        title=f"How far the runs lie apart, over {over}",
        description="For each workload, device and variant a row for every kind of machine, and a stroke for "
        "every run at its speed. Runs that differ beyond doubt are coloured.",
        spec=chart(panels, spacing=24),
        table=Table(header=("What", "Run", "Kind", "Ratio", "Beyond doubt"), rows=rows),
        reserve_px=room_px + 4,
        rank=1,
        legend=(
            *(Key(colour=OUTCOME_COLOURS[one], shape="bar", name=one.value)
              for one in (Outcome.SLOWER, Outcome.SAME, Outcome.FASTER)),
            *(Key(colour="transparent", shape="line", name=f"{letter}: {kind}")
              for kind, letter in letters.items()),
        ),
    )  # fmt: skip


def _letters(versus: Versus) -> dict[str, str]:
    kinds = dict.fromkeys(run.machine for run in versus.runs)
    return {kind: f"kind {number}" for number, kind in enumerate(kinds, 1)}


def _strokes(
    versus: Versus,
    cell: Cell,
    letters: Mapping[str, str],
    room_px: int,
    scale: Mapping[str, Any],
    *,
    labels: bool,
) -> dict[str, Any]:
    """Draw one panel; all have one scale, and the last one its labels."""
    values = [
        {
            "row": letters[versus.runs[one.run].machine],
            "v": one.ratio.median,
            "run": versus.runs[one.run].label,
            "text": numbers.ratio_estimate(one.ratio),
            "what": one.outcome.value,
            "colour": OUTCOME_COLOURS[one.outcome],
        }
        for one in _tested(versus, cell)
    ]
    axis = {"minExtent": room_px, "maxExtent": room_px, "labelLimit": room_px - 10, "ticks": False}
    return {
        "title": panel_title(cell.name, room_px),
        "height": {"step": 26},
        "data": {"values": sorted(values, key=lambda one: str(one["what"]) != Outcome.SAME.value)},
        "mark": {"type": "tick", "thickness": 1.6, "height": 16, "opacity": 0.75},
        "encoding": {
            "x": {
                "field": "v", "type": "quantitative", "title": None,
                "scale": scale,
                "axis": {"tickCount": 5, "format": "~g", "labels": labels},
            },
            "y": {"field": "row", "type": "nominal", "sort": None, "title": None, "axis": axis},
            "color": {"field": "colour", "type": "nominal", "scale": None},
            "tooltip": [
                {"field": "run", "title": "run", "type": "nominal"},
                {"field": "text", "title": "ratio", "type": "nominal"},
                {"field": "what", "title": "beyond doubt", "type": "nominal"},
            ],
        },
    }  # fmt: skip


def heat_figure(versus: Versus, over: str) -> Figure | None:
    """Draw a map of all runs against all workloads, a panel a kind; within a kind where it has a median."""
    found = cells(versus, tested=True)
    kinds: dict[str, list[int]] = {}
    for number, run in enumerate(versus.runs):
        kinds.setdefault(run.machine, []).append(number)
    panels: list[dict[str, Any]] = []
    rows: list[tuple[str, ...]] = []
    room_px = labels_px(cell.name for cell in found)
    values = [one.ratio.median for one in versus.ratios if one.tested]
    if not values:
        return None
    widest = max(*values, 1 / max(min(values), 1e-9))
    steps = next(steps for most, steps in _STEPS if widest <= most)
    for kind, members in kinds.items():
        panel, own = _map(versus, found, kind, members, steps, room_px)
        if own:
            panels.append(panel)
            rows += own
    return Figure(
        id="figure-heat",
        title=f"Every run and workload, over {over}",
        description="A map: a column a run, a row for each workload, device and variant, coloured by the speed "
        f"over {over}.",
        spec=chart(panels, spacing=28),
        table=Table(header=("Kind", "Run", "What", "Times"), rows=tuple(rows)),
        reserve_px=room_px + 4,
        rank=2,
        legend=tuple(
            Key(colour=colour, shape="bar", name=name)
            for colour, name in zip(_HEAT, _classes(steps), strict=True)
        ),
    )


def _classes(steps: Sequence[float]) -> list[str]:
    inner = [f"{low:g} to {high:g}" for low, high in pairwise(steps)]
    return [f"under {steps[0]:g}", *inner, f"{steps[-1]:g} and more"]


def _map(
    versus: Versus,
    found: Sequence[Cell],
    kind: str,
    members: Sequence[int],
    steps: Sequence[float],
    room_px: int,
) -> tuple[dict[str, Any], list[tuple[str, ...]]]:
    by_run = {(one.run, one.workload, one.device, one.variant): one for one in versus.ratios}
    values = []
    rows: list[tuple[str, ...]] = []
    for run in members:
        for cell in found:
            one = by_run.get((run, cell.workload, cell.device, cell.variant))
            if one is not None:
                times = one.ratio.median
                label = versus.runs[run].label
                text = numbers.ratio(times)
                values.append(
                    {"run": label, "row": cell.name, "v": times, "text": text, "what": one.outcome.value}
                )
                rows.append((kind, label, cell.name, text))
    axis = {"minExtent": room_px, "maxExtent": room_px, "labelLimit": room_px - 10, "ticks": False}
    panel = {
        "title": panel_title(f"{kind} ({len(members)})", room_px),
        "height": {"step": _CELL_PX},
        "data": {"values": values},
        "mark": {"type": "rect"},
        "encoding": {
            "x": {"field": "run", "type": "nominal", "sort": None, "axis": None},
            "y": {"field": "row", "type": "nominal", "sort": None, "title": None, "axis": axis},
            "fill": {
                "field": "v", "type": "quantitative", "legend": None,
                "scale": {"type": "threshold", "domain": list(steps), "range": list(_HEAT)},
            },
            "tooltip": [
                {"field": "run", "title": "run", "type": "nominal"},
                {"field": "row", "title": "what", "type": "nominal"},
                {"field": "text", "title": "ratio", "type": "nominal"},
                {"field": "what", "title": "beyond doubt", "type": "nominal"},
            ],
        },
    }  # fmt: skip
    return panel, rows
