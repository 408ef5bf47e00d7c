"""Chart of what each device can do, as a share of its data sheet or of machines of its kind."""

from __future__ import annotations

from dataclasses import replace
from statistics import median
from typing import Any

import altair as alt
import numpy as np

from harness.model.analysis import Analysis, Capability
from harness.model.run import Series, Trial
from reports import machine, numbers
from reports.charts import COLOUR, INK_2, Figure, device_colour, row_figure, rows
from reports.names import devices_of
from workloads.protocol import SOAK


def machine_figure(analysis: Analysis) -> Figure | None:
    """Draw a bar for each capability that has something to be compared with; None without any."""
    devices = devices_of(analysis)
    panels: dict[str, list[dict[str, Any]]] = {}
    for each in analysis.capabilities:
        if each.sheet or each.references:
            panels.setdefault(devices[each.device], []).append(_record(each))
    if not panels:
        return None
    most = max(1.0, *(record["share"] for records in panels.values() for record in records))
    x = alt.X(
        "share:Q", scale=alt.Scale(domain=[0, most]), axis=alt.Axis(title=None, format="%", tickCount=5)
    )
    whole = (
        alt.Chart(rows([{"share": 1.0}])).mark_rule(strokeWidth=1, strokeDash=[4, 3], color=INK_2).encode(x=x)
    )

    def layers(number: int, base: alt.Chart) -> list[alt.Chart]:
        marks = base.mark_tick(thickness=2, size=14, color=INK_2).encode(x=alt.X("kind:Q"))
        return [base.mark_bar(height=9).encode(x=x, color=COLOUR), marks, whole]

    columns = {
        "Device": "heading",
        "Capability": "row",
        "Measured": "text",
        "Interval": "interval",
        "At": "at",
    }
    return row_figure(
        "figure-machine",
        "Share of the data sheet (dashed) or of machines of the same kind; ticks: these machines",
        panels,
        layers,
        table=columns,
    )


def soaked(trial: Trial) -> Trial:
    """Return a trial that saturated a device with its speed and clock as telemetry of their own."""
    ends = np.array([each.end_ns for each in trial.windows], np.int64)
    lengths = np.array([each.end_ns - each.start_ns for each in trial.windows])
    speed = np.array([each.steps for each in trial.windows]) / lengths
    added = [
        Series(source=SOAK, device=trial.device, t_ns=ends, columns={"speed": 100 * speed / speed.max()})
    ]
    for series in trial.telemetry:
        if series.source == "nvml" and "sm_clock_mhz" in series.columns:
            columns = {"sm_clock_mhz": series.columns["sm_clock_mhz"]}
            added.append(replace(series, source=SOAK, columns=columns))
    return replace(trial, telemetry=(*added, *trial.telemetry))


def _record(each: Capability) -> dict[str, Any]:
    whole = each.sheet or median(each.references)
    text = machine.capability(each)
    if each.references:
        share = numbers.percent(each.value.median / median(each.references))
        text = f"{text}, {share} of its kind"
    return {
        "row": machine.capability_name(each.name),
        "share": each.value.median / whole,
        "kind": median(each.references) / whole if each.references else None,
        "text": text,
        "interval": _interval(each),
        "at": machine.load(each) or numbers.MISSING,
        "colour": device_colour(each.device),
    }


def _interval(each: Capability) -> str:
    if each.value.n < 2:
        return "one trial"
    return " to ".join(numbers.rate(end, each.value.unit) for end in (each.value.low, each.value.high))
