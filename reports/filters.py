"""What the templates can call: formats, names, and rows for plain tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from harness.model.analysis import Evidence, Summary
from harness.model.variants import variant_name
from harness.rounding import counted, scalar_word
from reports import numbers
from reports.markdown import code_block, code_span, coded_markdown
from reports.names import device_name
from reports.setup import field_rows, setup_rows, state, system_rows
from reports.sweep_chart import outcome, ranked
from reports.telemetry_text import metric_label, metric_value
from reports.text import breakable, coded
from workloads.protocol import Change


def evidence_row(evidence: Evidence) -> tuple[str, ...]:
    """Give a piece of evidence as a table's row."""
    return (evidence.metric, evidence.observed, evidence.threshold)


def change_row(change: Change) -> tuple[str, ...]:
    """Give a change as a table's row."""
    return (change.what, change.before, change.after, change.why)


def metric_keys(summaries: Iterable[Summary]) -> list[str]:
    """List the telemetry means that any of the summaries has, in the order of the first that has each."""
    return list(dict.fromkeys(key for summary in summaries for key in summary.telemetry))


def by_workload(values: Iterable[Any]) -> list[tuple[str, list[Any]]]:
    """Group by workload, in the order in which workloads first come."""
    groups: dict[str, list[Any]] = {}
    for value in values:
        groups.setdefault(value.workload, []).append(value)
    return list(groups.items())


FILTERS: Mapping[str, Callable[..., Any]] = {
    "breakable": breakable,
    "by_workload": by_workload,
    "change_row": change_row,
    "code_block": code_block,
    "code_span": code_span,
    "coded": coded,
    "coded_markdown": coded_markdown,
    "counted": counted,
    "device": device_name,
    "duration": numbers.duration,
    "electricity": numbers.electricity,
    "energy": numbers.energy,
    "estimate": numbers.estimate,
    "evidence_row": evidence_row,
    "field_rows": field_rows,
    "half_width": numbers.half_width,
    "interval": numbers.interval,
    "variant": variant_name,
    "metric_keys": metric_keys,
    "metric_label": metric_label,
    "metric_value": metric_value,
    "money": numbers.money,
    "number": numbers.number,
    "percent": numbers.percent,
    "published_quantity": numbers.published_quantity,
    "quantity": numbers.quantity,
    "quantity_estimate": numbers.quantity_estimate,
    "ranked_points": ranked,
    "ratio": numbers.ratio,
    "ratio_estimate": numbers.ratio_estimate,
    "setup_rows": setup_rows,
    "size": numbers.size,
    "state": state,
    "sweep_outcome": outcome,
    "sweep_value": scalar_word,
    "system_rows": system_rows,
    "when": numbers.when,
}
