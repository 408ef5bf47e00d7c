"""Chart of every trial relative to the median of its workload, device and variant."""

from __future__ import annotations

from harness.model.analysis import Analysis
from reports import numbers
from reports.charts import Figure, device_colour, dot_plot
from reports.names import devices_of, variant_name
from workloads.protocol import BASELINE, TUNED


def trials_figure(analysis: Analysis) -> Figure | None:
    """Draw the trials of baseline and tuned as speed / median; None if none was repeated."""
    devices = devices_of(analysis)
    records = [
        {
            "row": f"{summary.workload}, {devices[summary.device]}, {variant_name(summary.variant)}",
            "value": throughput / summary.throughput.median,
            "name": f"{trial_id}: {numbers.number(throughput)}/s",
            "text": "",
            "colour": device_colour(summary.device),
        }
        for summary in analysis.summaries
        if summary.variant in (BASELINE, TUNED) and summary.throughput.n > 1
        for trial_id, throughput in zip(summary.trial_ids, summary.trial_throughputs, strict=True)
    ]
    if not records:
        return None
    return dot_plot(
        "figure-trials",
        "Each trial relative to the median of its variant",
        {"": records},
        table={"Workload, device, variant": "row", "Trial": "name"},
        around=1.01,
    )
