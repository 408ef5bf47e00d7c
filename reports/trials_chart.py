"""A strip of dots for each workload, device and variant: one dot a trial, over the median."""

from __future__ import annotations

from typing import Any

from harness.analysis.measures import measures
from harness.model.analysis import Analysis, of_key
from reports import numbers
from reports.charts import Figure, device_colour, dot_plot
from reports.names import devices_of, variant_name
from workloads.protocol import BASELINE, TUNED


def trials_figure(analysis: Analysis) -> Figure | None:
    """Draw the trials of baseline and tuned as speeds over their median; None where none was repeated."""
    devices = devices_of(analysis)
    records: list[dict[str, Any]] = []
    for key, group in measures(analysis.run).items():
        summary = of_key(analysis.summaries, key)
        if key.variant not in (BASELINE, TUNED) or summary is None or len(group) < 2:
            continue
        records += [
            {
                "row": f"{key.workload}, {devices[key.device]}, {variant_name(key.variant)}",
                "value": each.throughput / summary.throughput.median,
                "name": f"{each.trial.id}: {numbers.number(each.throughput)}/s",
                "text": "",
                "colour": device_colour(key.device),
            }
            for each in group
        ]
    if not records:
        return None
    return dot_plot(
        "figure-trials",
        "Every trial, over the median of its variant",
        {"": records},
        table={"Workload, device, variant": "row", "Trial": "name"},
        labels_px=220,
        text_px=8,
        row_px=15,
        around=1.01,
    )
