"""results.json: an analysis as plain values, with units in names and a schema that ships with tfbench.

The document is stable: within a schema version fields are only added. harness/schemas/results.schema.json
describes it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from enum import Enum
from importlib import resources
from typing import Any

from harness.model.analysis import (
    Analysis,
    Capacity,
    Comparison,
    Cost,
    CostRatio,
    Estimate,
    Latency,
    PublishedComparison,
    Summary,
    Sweep,
    SweepPoint,
    Verdict,
)
from harness.model.run import Trial

RESULTS_VERSION = 1


def results_document(analysis: Analysis) -> dict[str, Any]:
    """Return the analysis as a JSON-serialisable document; what is not known is null, never 0 or NaN."""
    manifest = analysis.run.manifest
    document = {
        "schema": "tfbench-results",
        "schema_version": RESULTS_VERSION,
        "run": {
            "id": manifest.run_id,
            "created": manifest.created,
            "tfbench_version": manifest.tfbench_version,
            "commit": manifest.commit,
            "command": manifest.command,
            "seed": manifest.seed,
            "warnings": manifest.warnings,
            "trials_planned": len(analysis.run.planned),
        },
        "headline": analysis.headline,
        "system": analysis.run.system,
        "host_facts": manifest.host_facts,
        "engine": asdict(manifest.engine),
        "gpus": [asdict(gpu) for gpu in manifest.gpus],
        "images": [asdict(image) for image in manifest.images],
        "data": [asdict(data) for data in manifest.data],
        "weights": [asdict(weights) for weights in manifest.weights],
        "parameters": manifest.parameters,
        "workloads": [asdict(workload) for workload in analysis.run.workloads],
        "trials": [_trial(trial) for trial in analysis.run.trials],
        "stops": [{**asdict(stop), "point": dict(stop.point)} for stop in analysis.run.stops],
        "summaries": [_summary(summary) for summary in analysis.summaries],
        "comparisons": [_comparison(comparison) for comparison in analysis.comparisons],
        "published": [_published(published) for published in analysis.published],
        "verdicts": [_verdict(verdict) for verdict in analysis.verdicts],
        "quality": [asdict(quality) for quality in analysis.quality],
        "latencies": [_latency(one) for one in analysis.latencies],
        "capacities": [_capacity(one) for one in analysis.capacities],
        "time_spent": [asdict(one) for one in analysis.spent],
        "sweeps": [_sweep(sweep) for sweep in analysis.sweeps],
        "prices": asdict(manifest.prices) if manifest.prices else None,
        "costs": [_cost(cost) for cost in analysis.costs],
        "cost_claim": asdict(analysis.cost_claim) if analysis.cost_claim else None,
        "cost_ratios": [_cost_ratio(ratio) for ratio in analysis.cost_ratios],
    }
    plain: dict[str, Any] = _plain(document)
    return plain


def results_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of the document."""
    path = resources.files("harness") / "schemas" / "results.schema.json"
    schema: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return schema


def _estimate(value: Estimate | None) -> dict[str, Any] | None:
    """Leave the interval of a single value null: the value itself would read as an interval of no width."""
    if value is None:
        return None
    known = value.n > 1
    return {
        "median": value.median,
        "low": value.low if known else None,
        "high": value.high if known else None,
        "n": value.n,
    }


def _trial(trial: Trial) -> dict[str, Any]:
    return {
        "id": trial.id,
        "workload": trial.workload,
        "device": trial.device,
        "index": trial.index,
        "point": dict(trial.point),
        "status": trial.status,
        "exit_code": trial.exit_code,
        "message": trial.message,
        "duration_s": (trial.ended_ns - trial.started_ns) / 1e9,
        "facts": trial.facts,
        "said": [asdict(fact) for fact in trial.said],
        "warnings": trial.warnings,
        "sampling": trial.sampling,
        "metrics": [asdict(metric) for metric in trial.metrics],
        "gaps": [
            {
                "source": gap.source,
                "device": gap.device,
                "metric": gap.metric,
                "duration_s": (gap.end_ns - gap.start_ns) / 1e9,
                "reason": gap.reason,
            }
            for gap in trial.gaps
        ],
    }


def _summary(summary: Summary) -> dict[str, Any]:
    return {
        "workload": summary.workload,
        "device": summary.device,
        "variant": summary.variant,
        "throughput_samples_per_s": _estimate(summary.throughput),
        "step_time_s": _estimate(summary.step_time),
        "batch_size": summary.batch_size,
        "step_time_quantiles_s": summary.step_quantiles,
        "wait_share": summary.wait_share,
        "training_s": _estimate(summary.training_s),
        "training_projected": summary.training_projected,
        "training_how": summary.training_how,
        "training_bound": summary.training_bound or None,
        "cold_start": [{"phase": phase, "duration_s": seconds} for phase, seconds in summary.cold_start],
        "telemetry_means": summary.telemetry,
        "energy_j_per_sample": _estimate(summary.energy_j_per_sample),
        "energy_source": summary.energy_source,
        "accuracy": summary.accuracy,
        "accuracy_ok": summary.accuracy_ok,
        "epoch_s": summary.epoch_s,
        "changes": [asdict(change) for change in summary.changes],
        "trial_ids": summary.trial_ids,
    }


def _comparison(comparison: Comparison) -> dict[str, Any]:
    return {
        "workload": comparison.workload,
        "kind": comparison.kind,
        "numerator": comparison.numerator,
        "denominator": comparison.denominator,
        "ratio": _estimate(comparison.ratio),
    }


def _latency(one: Latency) -> dict[str, Any]:
    return {
        "workload": one.workload,
        "device": one.device,
        "variant": one.variant,
        "scenario": one.scenario,
        "batch_size": one.batch_size,
        "rate_per_s": one.rate_per_s,
        "throughput_samples_per_s": _estimate(one.samples_per_s),
        "latency_quantiles_s": one.quantiles_s,
        "requests": one.requests,
        "requests_planned": one.planned,
        "trial_ids": one.trial_ids,
    }


def _capacity(one: Capacity) -> dict[str, Any]:
    plain = {name: getattr(one, name) for name in one.__slots__}
    return {**plain, "rate_per_s": _estimate(one.rate_per_s)}


def _published(published: PublishedComparison) -> dict[str, Any]:
    plain = {name: getattr(published, name) for name in published.__slots__}
    return {**plain, "measured": _estimate(published.measured), "factor": _estimate(published.factor)}


def _verdict(verdict: Verdict) -> dict[str, Any]:
    remedy = verdict.remedy
    return {
        "workload": verdict.workload,
        "device": verdict.device,
        "rule": verdict.rule,
        "finding": verdict.finding,
        "cause": verdict.cause,
        "sentence": verdict.sentence,
        "evidence": [asdict(evidence) for evidence in verdict.evidence],
        "cost_share": verdict.cost,
        "remedy": None
        if remedy is None
        else {
            "text": remedy.text,
            "code": remedy.code,
            "predicted_gain": remedy.predicted_gain,
            "measured_gain": _estimate(remedy.measured_gain),
            "at_least": remedy.at_least,
            "measured_variant": remedy.measured_variant,
            "missed_by": remedy.miss,
            "not_judged": remedy.not_judged,
        },
    }


def _sweep(sweep: Sweep) -> dict[str, Any]:
    return {
        "workload": sweep.workload,
        "device": sweep.device,
        "variant": sweep.variant,
        "axes": [asdict(axis) for axis in sweep.axes],
        "best": None if sweep.best is None else dict(sweep.best.point),
        "points": [_sweep_point(point) for point in sweep.points],
    }


def _sweep_point(one: SweepPoint) -> dict[str, Any]:
    return {
        "params": dict(one.point),
        "status": one.status,
        "message": one.message,
        "throughput_samples_per_s": _estimate(one.throughput),
        "step_time_s": _estimate(one.step_time),
        "energy_j_per_sample": _estimate(one.energy_j_per_sample),
        "accuracy": one.accuracy,
        "over_best": _estimate(one.over_best),
        "tied_with_best": one.tied,
        "trial_ids": one.trial_ids,
    }


def _cost(cost: Cost) -> dict[str, Any]:
    return {
        "workload": cost.workload,
        "device": cost.device,
        "variant": cost.variant,
        "price_per_hour": cost.per_hour,
        "training": _estimate(cost.training),
        "training_projected": cost.training_projected,
        "training_bound": cost.training_bound or None,
        "per_million_samples": _estimate(cost.per_million_samples),
        "energy_j_per_sample": _estimate(cost.energy_j_per_sample),
        "energy_source": cost.energy_source,
        "training_kwh": _estimate(cost.training_kwh),
        "electricity_training": _estimate(cost.electricity_training),
        "electricity_per_million_samples": _estimate(cost.electricity_per_million_samples),
    }


def _cost_ratio(one: CostRatio) -> dict[str, Any]:
    return {
        "workload": one.workload,
        "device": one.device,
        "variant": one.variant,
        "cpu_over_device": _estimate(one.ratio),
        "cpu_time_over_device_time": _estimate(one.time_ratio),
        "break_even_price_per_hour": one.break_even,
    }


def _plain(value: Any) -> Any:
    """Reduce a value to what JSON has: numbers that are not finite become null, all else unknown a string."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if value is None or isinstance(value, str | bool | int):
        return value
    return str(value)
