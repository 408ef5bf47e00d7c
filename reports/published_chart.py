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
    header = ("Workload", "Published for", "Published", "Here", "Here / published", "Note")
    return charts.dot_plot(
        "figure-published",
        "Measured here / published: 1× is equally fast",
        {"": [_record(each, devices) for each in shown]},
        table=charts.Table(header=header, rows=tuple(_cells(each, titles, devices) for each in shown)),
        around=2.5,
    )


def _cells(each: PublishedComparison, titles: dict[str, str], devices: dict[str, str]) -> tuple[str, ...]:
    return (
        f"{titles[each.workload]}, {devices[each.device]}",
        f"{each.number.system} ({each.number.source})",
        numbers.published(each.number),
        numbers.quantity(each.measured),
        numbers.factor(each.factor.median) if each.factor else numbers.MISSING,
        published_note(each),
    )


def _record(each: PublishedComparison, devices: dict[str, str]) -> dict[str, Any]:
    assert each.factor is not None
    what = {"ratio": "GPU/CPU", "requests ratio": "GPU/CPU requests", "gain": "gain by tuning"}.get(
        each.number.unit, ""
    )
    where = devices[each.device]
    number = numbers.published(each.number)
    return {
        "row": f"{each.workload} {what or where} {number}, {each.number.system.split(',')[0]}",
        **charts.span(each.factor),
        "text": numbers.factor(each.factor.median),
        "name": f"{each.number.system}, {each.number.source}",
        "colour": charts.device_colour(each.device),
    }
