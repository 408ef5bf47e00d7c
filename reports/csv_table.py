"""Write a run's summary or a comparison as CSV, with one row per workload, device and variant."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from statistics import median
from typing import Any

from harness.model.analysis import Analysis, Capability, Estimate, Part, RatioKind, Summary, find_by_key
from harness.model.comparison import Result, Versus
from reports.compare_messages import reference_name
from reports.escaping import harmless
from workloads.protocol import BASELINE, MACHINE

# Spreadsheets treat cells that begin with one of these as formulas, even if quoted in the CSV.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def render_csv(analysis: Analysis) -> str:
    """Return the summary as CSV; units are in column names, and unknown values are empty."""
    machine = (dict(_capability_row(analysis, each)) for each in analysis.capabilities)
    return _written([*(dict(_row(analysis, summary)) for summary in analysis.summaries), *machine])


def comparison_csv(versus: Versus) -> str:
    """Return all speeds of a comparison as CSV; unknown values are empty."""
    return _written(dict(_result_row(versus, each)) for each in versus.results)


def _written(rows: Iterable[Mapping[str, Any]]) -> str:
    rows = list(rows)
    text = io.StringIO()
    names = dict.fromkeys(name for row in rows for name in row)
    writer = csv.DictWriter(text, list(names) or ["run"], restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def cell(value: Any) -> Any:
    """Return a value as a safe cell; text that looks like a formula gets a leading apostrophe."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not isinstance(value, str):
        return "" if value is None else value
    text = harmless(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _row(analysis: Analysis, summary: Summary) -> Iterator[tuple[str, Any]]:
    yield from _run(analysis)
    yield from summary.key._asdict().items()
    yield "trials", summary.throughput.n
    yield from _estimate("samples_per_s", summary.throughput)
    yield from _estimate("step_s", summary.step_time)
    yield "batch_size", summary.batch_size
    for name in ("p50", "p90", "p99", "max"):
        yield f"step_{name}_s", summary.step_quantiles.get(name)
    yield "wait_share", summary.wait_share
    yield from _estimate("training_s", summary.training_s)
    yield "training_projected", summary.training_projected if summary.training_s else None
    yield "cold_start_s", sum(seconds for _, seconds in summary.cold_start) if summary.cold_start else None
    yield "peak_memory_bytes", summary.memory_bytes
    yield from _estimate("energy_j_per_sample", summary.energy_j_per_sample)
    yield "energy_source", summary.energy_source
    yield "accuracy", summary.accuracy
    yield "accuracy_ok", summary.accuracy_ok
    for kind in RatioKind:
        yield from _estimate(kind.value, analysis.ratio(kind, summary.key))
    time = find_by_key(analysis.step_times, summary.key)
    for part in Part:
        value = time.parts.get(part) if time else None
        yield f"step_{part.value.replace(' ', '_')}_s", value.median if value else None
    use = find_by_key(analysis.peak_use, summary.key)
    yield "flops_per_sample", use.flops_per_sample if use else None
    yield "share_of_measured_peak", use.of_measured if use else None
    yield "mfu", use.of_sheet if use else None
    finding = analysis.limit(summary.workload, summary.device)
    yield "limited_by", finding.cause.value if finding and summary.variant == BASELINE else None
    yield "trial_ids", " ".join(summary.trial_ids)


def _capability_row(analysis: Analysis, each: Capability) -> Iterator[tuple[str, Any]]:
    yield from _run(analysis)
    yield from {"workload": MACHINE, "device": each.device, "variant": each.name}.items()
    yield "trials", each.value.n
    yield from _estimate("capability", each.value)
    yield "capability_unit", each.value.unit
    yield "data_sheet", each.sheet
    yield "share_of_kind", each.value.median / median(each.references) if each.references else None
    yield "sm_clock_mhz", each.mhz
    yield "power_w", each.power_w


def _run(analysis: Analysis) -> Iterator[tuple[str, Any]]:
    manifest = analysis.run.manifest
    yield "run", manifest.run_id
    yield "created", manifest.created
    yield "machine", manifest.system.get("system_name") or manifest.system.get("host_processor_model_name")
    yield "gpus", "; ".join(dict.fromkeys(gpu.name for gpu in manifest.gpus))
    yield "profile", manifest.profile.name
    yield "tfbench", manifest.tfbench_version
    yield "commit", manifest.commit


def _result_row(versus: Versus, each: Result) -> Iterator[tuple[str, Any]]:
    run = versus.runs[each.run]
    yield "run", run.label
    yield "run_id", run.run_id
    yield "created", run.created
    yield "machine", run.machine
    yield from each.key._asdict().items()
    yield "trials", each.speed.n
    yield from _estimate("samples_per_s", each.speed)
    yield from _estimate("ratio", each.ratio)
    yield "outcome", each.outcome.value
    yield "not_comparable", " ".join(each.not_comparable)
    yield "reference", reference_name(versus)


def _estimate(name: str, value: Estimate | None) -> Iterator[tuple[str, Any]]:
    """Yield a median and its interval, which is empty for a single value."""
    has_interval = value is not None and value.n > 1
    yield name, value.median if value else None
    yield f"{name}_low", value.low if value and has_interval else None
    yield f"{name}_high", value.high if value and has_interval else None
