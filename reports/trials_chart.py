"""A strip of dots for each workload, device and variant: one dot a trial, over the median."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from harness.analysis.measures import measures
from harness.model.analysis import Analysis
from reports import numbers
from reports.charts import COLOUR, Figure, Panel, Table, device_colour, labelled, panel, stacked, unity
from reports.names import devices_of, variant_name
from workloads.protocol import BASELINE, TUNED

_LABELS_PX = 220
_ROW_PX = 15


def trials_figure(analysis: Analysis) -> Figure | None:
    """Draw the trials of baseline and tuned as speeds over their median; None where none was repeated."""
    devices = devices_of(analysis)
    records: list[Mapping[str, Any]] = []
    cells = []
    for key, group in measures(analysis.run).items():
        if key.variant not in (BASELINE, TUNED) or len(group) < 2:
            continue
        middle = sorted(each.throughput for each in group)[len(group) // 2]
        row = f"{key.workload}, {devices[key.device]}, {variant_name(key.variant)}"
        records += [
            {
                "row": row,
                "value": each.throughput / middle,
                "trial": each.trial.id,
                "colour": device_colour(key.device),
            }
            for each in group
        ]
        cells.append((row, *(f"{numbers.number(each.throughput)}/s" for each in group)))
    if not records:
        return None
    columns = max(len(row) for row in cells)
    return Figure(
        id="figure-trials",
        title="Every trial, over the median of its variant",
        description="A strip of dots a workload, device and variant; the further apart, the less a speed says.",
        spec=stacked([_panel(records)]),
        table=Table(
            header=("Workload, device, variant", *(f"Trial {number}" for number in range(1, columns))),
            rows=tuple((*row, *("" for _ in range(columns - len(row)))) for row in cells),
        ),
        reserve_px=_LABELS_PX + 8,
    )


def _panel(records: Sequence[Mapping[str, Any]]) -> Panel:
    axis = alt.Axis(title=None, tickCount=5, format="~g")
    x = alt.X("value:Q", scale=alt.Scale(type="log", nice=False, padding=8), axis=axis)
    dots = labelled(records, _LABELS_PX).mark_point(filled=True, size=36, opacity=0.8)
    return panel(
        unity(x),
        dots.encode(x=x, tooltip=[alt.Tooltip("trial:N"), alt.Tooltip("value:Q")], color=COLOUR),
        row_px=_ROW_PX,
    )
