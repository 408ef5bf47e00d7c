"""Chart of measured / published speeds on a logarithmic axis."""

from __future__ import annotations

from typing import Any

from harness.model.analysis import Analysis, PublishedComparison
from reports import charts, numbers
from reports.messages import published_note
from reports.names import devices_of, titles_of


def published_figure(analysis: Analysis) -> charts.Figure | None:
    """Draw each published speed, time or ratio that was measured here; None if there are none."""
    shown = [each for each in analysis.published if each.factor is not None]
    if not shown:
        return None
    titles, devices = titles_of(analysis), devices_of(analysis)
    panels = {"": [_record(each, titles[each.workload], devices[each.device]) for each in shown]}
    columns = {
        "Workload": "where", "Published for": "name", "Published": "number", "Here": "here",
        "Here / published": "text", "Note": "note",
    }  # fmt: skip
    return charts.dot_plot(
        "figure-published",
        "Measured here / published: 1× is equally fast",
        panels,
        table=columns,
        around=2.5,
    )


def _record(each: PublishedComparison, title: str, device: str) -> dict[str, Any]:
    assert each.factor is not None
    what = {"ratio": "GPU/CPU", "requests ratio": "GPU/CPU requests", "gain": "gain by tuning"}
    number = numbers.published(each.number)
    return {
        "row": f"{each.workload} {what.get(each.number.unit, device)} {number}, {each.number.system.split(',')[0]}",
        **charts.span(each.factor),
        "text": numbers.quantity(each.factor),
        "name": f"{each.number.system}, {each.number.source}",
        "colour": charts.device_colour(each.device),
        "where": f"{title}, {device}",
        "number": number,
        "here": numbers.quantity(each.measured),
        "note": published_note(each),
    }
