"""Chart of measured / published speeds on a logarithmic axis."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from typing import Any

from harness.analysis.compared_facts import machine_name
from harness.model.analysis import Analysis, Key, PublishedComparison, find_by_key
from harness.model.comparison import Extract
from reports import charts, numbers
from reports.messages import published_note
from reports.names import devices_of, titles_of
from reports.palette import gpu_colour


def published_figure(analysis: Analysis, references: Sequence[Extract] = ()) -> charts.Figure | None:
    """Draw each published speed, time or ratio that was measured here; None if there are none.

    Args:
        references: tfbench runs on other machines, drawn if they measured the same variant.
    """
    shown = [each for each in analysis.published if each.factor is not None]
    if not shown:
        return None
    titles = titles_of(analysis)
    devices = devices_of(analysis)
    records = [_record(each, titles, devices) for each in shown]
    others = [
        record
        for index, extract in enumerate(references)
        for each, row in zip(shown, records, strict=True)
        for record in _reference_records(analysis, each, extract, index, row["row"])
    ]
    names = {record["name"]: record["colour"] for record in others}
    keys = (charts.Key(colour=colour, shape="diamond", name=name) for name, colour in names.items())
    header = ("Workload", "Published for", "Published", "Here", "Here / published", "Note")
    return charts.dot_plot(
        "figure-published",
        "Measured here / published: 1× is equally fast",
        {"": records},
        table=charts.Table(header=header, rows=tuple(_cells(each, titles, devices) for each in shown)),
        labels_px=330,
        text_px=90,
        row_px=22,
        around=2.5,
        references=others,
        legend=tuple(keys),
    )


def _reference_records(
    analysis: Analysis, each: PublishedComparison, extract: Extract, index: int, row: str
) -> Iterator[dict[str, Any]]:
    """Yield the factor of a reference machine: this machine's factor times the ratio of their speeds."""
    if not each.is_time_or_speed or each.factor is None:
        return
    key = Key(each.workload, each.device, each.measured_variant)
    here, there = find_by_key(analysis.summaries, key), find_by_key(extract.speeds, key)
    if here and there and extract.machine != machine_name(analysis.run.manifest):
        factor = each.factor.median * statistics.median(there.throughput) / here.throughput.median
        yield {
            "row": row, "value": factor, "text": numbers.factor(factor), "colour": gpu_colour(index + 2),
            "name": f"measured by tfbench on {extract.label}",
        }  # fmt: skip


def _cells(each: PublishedComparison, titles: dict[str, str], devices: dict[str, str]) -> tuple[str, ...]:
    return (
        f"{titles[each.workload]}, {devices[each.device]}",
        f"{each.number.system} ({each.number.source})",
        numbers.published(each.number),
        numbers.quantity(each.measured),
        numbers.factor(each.factor.median) if each.factor else numbers.MISSING,
        published_note(each),
    )


def _record(each: PublishedComparison, titles: dict[str, str], devices: dict[str, str]) -> dict[str, Any]:
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
