"""Chart of the speed of each workload: baseline, single changes and all changes on one axis."""

from __future__ import annotations

from typing import Any

from harness.model.analysis import Analysis, Summary
from reports import numbers
from reports.charts import Figure, device_colour, dot_plot, span
from reports.names import devices_of, titles_of, variant_name
from reports.pipeline_chart import shown_pipelines
from workloads.protocol import BASELINE, INPUT_ONLY, MODEL_ONLY, TUNED, WITHOUT_INPUT, changes_baseline

# Ceilings come first, then the baseline and single changes, and tuned last.
_ORDER = {INPUT_ONLY: 0, MODEL_ONLY: 1, BASELINE: 2, TUNED: 4}


def speeds_figure(analysis: Analysis) -> Figure | None:
    """Draw the variants of each workload, with ceilings if input matters; None if nothing was changed."""
    devices = devices_of(analysis)
    places = list(devices)
    limited = {(each.workload, each.device) for each in shown_pipelines(analysis)}
    panels = {}
    for workload, title in titles_of(analysis).items():
        shown = [
            each
            for each in analysis.summaries
            if each.workload == workload
            and analysis.speed(each.key)
            and _shown(each.variant, ceilings=(workload, each.device) in limited)
        ]
        shown.sort(key=lambda each: (places.index(each.device), _ORDER.get(each.variant, 3)))
        if {BASELINE} < {each.variant for each in shown}:
            heading = f"{title}, requests/s within the latency bound" if analysis.serves(workload) else title
            panels[heading] = [_record(analysis, each, devices[each.device]) for each in shown]
    if not panels:
        return None
    return dot_plot(
        "figure-speeds",
        "Samples per second: single changes and all changes (tuned)",
        panels,
        table={"Workload": "heading", "Variant": "row", "Speed": "text", "Changes": "name"},
    )


def _record(analysis: Analysis, each: Summary, device: str) -> dict[str, Any]:
    gain, value = analysis.gain(each.key), analysis.speed(each.key)
    assert value is not None  # others are not shown
    speed = numbers.speed(value)
    return {
        **span(value),
        "row": f"{device} {variant_name(each.variant)}",
        "text": f"{speed}, {numbers.factor(gain.median)}" if gain else speed,
        "name": ", ".join(f"{item.what} {item.before} → {item.after}" for item in each.changes),
        "colour": device_colour(each.device),
    }


def _shown(variant: str, *, ceilings: bool) -> bool:
    if variant in (INPUT_ONLY, MODEL_ONLY):
        return ceilings
    return variant in (BASELINE, TUNED) or (changes_baseline(variant) and variant != WITHOUT_INPUT)
