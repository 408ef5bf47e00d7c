"""A strip of dots for each workload, device and variant: one dot a trial, over the median."""

from __future__ import annotations

from typing import Any

from harness.analysis.measures import measures
from harness.model.analysis import Analysis, of_key
from reports import numbers
from reports.charts import Figure, Table, device_colour, measured, ratio_axis, stacked, unity
from reports.names import devices_of, variant_name
from workloads.protocol import BASELINE, TUNED

_LABELS_PX = 220
_ROW_PX = 15


def trials_figure(analysis: Analysis) -> Figure | None:
    """Draw the trials of baseline and tuned as speeds over their median; None where none was repeated."""
    devices = devices_of(analysis)
    records: list[dict[str, Any]] = []
    cells = []
    for key, group in measures(analysis.run).items():
        summary = of_key(analysis.summaries, key)
        if key.variant not in (BASELINE, TUNED) or summary is None or len(group) < 2:
            continue
        row = f"{key.workload}, {devices[key.device]}, {variant_name(key.variant)}"
        for each in group:
            value, colour = each.throughput / summary.throughput.median, device_colour(key.device)
            records.append({"row": row, "value": value, "name": each.trial.id, "text": "", "colour": colour})
            cells.append((row, each.trial.id, f"{numbers.number(each.throughput)}/s"))
    if not records:
        return None
    x = ratio_axis((record["value"] for record in records), around=1.01)
    return Figure(
        id="figure-trials",
        title="Every trial, over the median of its variant",
        description="A strip of dots a workload, device and variant; the further apart, the less a speed says.",
        spec=stacked([measured(records, x, labels_px=_LABELS_PX, row_px=_ROW_PX, under=[unity(x)])]),
        table=Table(header=("Workload, device, variant", "Trial", "Speed"), rows=tuple(cells)),
        reserve_px=_LABELS_PX + 8,
    )
