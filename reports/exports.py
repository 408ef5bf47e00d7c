"""Write results for other programs: JSON, CSV, github-action-benchmark, Bencher, OpenMetrics, MLPerf and JUnit.

In the JSON documents unknown values are null, never 0 or NaN.
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import msgspec

from harness.analysis.quantities import values
from harness.model.analysis import (
    Analysis,
    Capability,
    CaseResult,
    Estimate,
    LimitOutcome,
    RatioKind,
    Sweep,
    SweepPoint,
    VariantResult,
)
from harness.model.comparison import Gate, Outcome, Result, Versus
from harness.wording import scalar_word
from reports import acceptance, machine, numbers
from reports.compare_messages import reference_name, subject
from reports.text import harmless, printable_xml
from workloads.protocol import MACHINE
from workloads.variants import BASELINE, Part

# MLPerf's system description. Submitter, division and status are the user's to say.
_MLPERF = (
    "submitter division status system_name number_of_nodes host_processors_per_node host_processor_model_name "
    "host_processor_core_count host_processor_vcpu_count host_processor_frequency host_processor_caches "
    "host_processor_interconnect host_memory_capacity host_memory_configuration host_storage_type "
    "host_storage_capacity host_networking host_networking_topology accelerators_per_node accelerator_model_name "
    "accelerator_host_interconnect accelerator_frequency accelerator_on-chip_memories "
    "accelerator_memory_configuration accelerator_memory_capacity accelerator_interconnect "
    "accelerator_interconnect_topology cooling hw_notes framework other_software_stack operating_system sw_notes"
)

# Of docs/results.schema.json: raised when a field is renamed or removed, or its meaning changes.
RESULTS_VERSION = 5
# Large arrays of a trial, which stay in the run folder.
LEFT_OUT = ("telemetry", "steps", "requests")
# Name, labels and value of a gauge.
MetricSample = tuple[str, Mapping[str, str], float]


def render_github(analysis: Analysis) -> str:
    """Return speeds as github-action-benchmark's customBiggerIsBetter."""
    run_id = analysis.run.manifest.run_id
    return _json(
        [
            {
                "name": f"{case.workload}/{case.device}/{variant}",
                "unit": "samples/s",
                "value": result.throughput.median,
                "range": numbers.spread(result.throughput),
                "extra": f"batch {result.batch_size}, readings {result.readings}, run {run_id}",
            }
            for case, variant, result in analysis.variants
        ]
    )


def render_bencher(analysis: Analysis) -> str:
    """Return speeds in samples/s and step times in ns in the Bencher Metric Format."""
    return _json(
        {
            f"{case.workload}/{case.device}/{variant}": {
                "throughput": _bencher(result.throughput),
                "latency": _bencher(result.step_time, 1e9),
                **({"energy": _bencher(result.energy_j_per_sample)} if result.energy_j_per_sample else {}),
            }
            for case, variant, result in analysis.variants
        }
    )


def _bencher(value: Estimate, scale: float = 1.0) -> dict[str, float]:
    ends = {"lower_value": value.low * scale, "upper_value": value.high * scale} if value.n > 1 else {}
    return {"value": value.median * scale, **ends}


def render_openmetrics(analysis: Analysis) -> str:
    """Return a run's results as OpenMetrics text, with the ends of each interval as gauges of their own."""
    manifest = analysis.run.manifest
    run = {"run_id": manifest.run_id}
    about = {
        "created": manifest.created,
        "profile": manifest.profile.name,
        "framework": analysis.run.framework,
    }
    speeds = (
        (name, {**run, "workload": case.workload, "device": case.device, "variant": variant}, value)
        for case, variant, result in analysis.variants
        for name, value in _gauges(result)
    )
    return openmetrics_text((("run", {**run, **about}, 1), *speeds))


def openmetrics_text(samples: Iterable[MetricSample]) -> str:
    """Return gauges as OpenMetrics text; "tfbench_" is put before their names."""
    families: dict[str, list[str]] = {}
    for name, labels, value in samples:
        families.setdefault(f"tfbench_{name}", []).append(f"tfbench_{name}{_labels(labels)} {value!r}")
    lines = (line for name, samples in families.items() for line in (f"# TYPE {name} gauge", *samples))
    return "\n".join((*lines, "# EOF")) + "\n"


def _gauges(result: VariantResult) -> Iterator[tuple[str, float]]:
    yield "trials", len(result.trial_ids)
    yield "readings", result.readings
    for name, value in (
        ("samples_per_second", result.throughput),
        ("step_seconds", result.step_time),
        ("sample_joules", result.energy_j_per_sample),
    ):
        if value is not None:
            yield name, value.median
            if value.n > 1:
                yield from ((f"{name}_low", value.low), (f"{name}_high", value.high))
    if result.wait_share is not None:
        yield "wait_ratio", result.wait_share


def _labels(values: Mapping[str, str]) -> str:
    escaped = (
        (name, harmless(text).replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n"))
        for name, text in values.items()
    )
    return "{" + ",".join(f'{name}="{text}"' for name, text in escaped) + "}"


def render_mlperf(analysis: Analysis) -> str:
    """Return MLPerf's system description; fields that are not known are ""."""
    manifest, run = analysis.run.manifest, analysis.run
    gpus = manifest.gpus
    known = dict(manifest.system)
    known |= {"number_of_nodes": "1", "accelerators_per_node": str(len(gpus)), "framework": run.framework}
    software = [f"tfbench {manifest.tfbench_version}", f"{manifest.engine.name} {manifest.engine.version}"]
    if gpus:
        first = gpus[0]
        names = Counter(gpu.name for gpu in gpus)
        software += [f"driver {first.driver_version}", f"CUDA {first.cuda_version}"]
        pcie = f"PCIe Gen{first.pcie_gen} x{first.pcie_width}" if first.pcie_gen and first.pcie_width else ""
        known |= {
            "accelerator_model_name": ", ".join(names),
            "accelerator_host_interconnect": pcie,
            "accelerator_frequency": f"{first.clock_max_sm_mhz} MHz" if first.clock_max_sm_mhz else "",
            "accelerator_memory_capacity": numbers.size(first.memory_bytes) if first.memory_bytes else "",
        }
    known["other_software_stack"] = ", ".join(software)
    return _json({name: known.get(name, "").replace(numbers.SPACE, " ") for name in _MLPERF.split()})


def _json(document: Any) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def render_csv(analysis: Analysis) -> str:
    """Return the summary as CSV; units are in column names, and unknown values are empty."""
    able = (dict(_capability_row(analysis, capability)) for capability in analysis.capabilities)
    swept = (dict(_point_row(analysis, sweep, point)) for sweep in analysis.sweeps for point in sweep.points)
    return _written([*(dict(_variant_row(analysis, *each)) for each in analysis.variants), *swept, *able])


def comparison_csv(versus: Versus) -> str:
    """Return all speeds of a comparison as CSV; unknown values are empty."""
    return _written(dict(_result_row(versus, result)) for result in versus.results)


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
    # Spreadsheets treat cells that begin with one of these as formulas, even if quoted in the CSV.
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _variant_row(
    analysis: Analysis, case: CaseResult, variant: str, result: VariantResult
) -> Iterator[tuple[str, Any]]:
    yield from _run_cells(analysis)
    yield from {"workload": case.workload, "device": case.device, "variant": variant}.items()
    yield "trials", len(result.trial_ids)
    yield "readings", result.readings
    yield from _estimate("samples_per_s", result.throughput)
    yield from _estimate("step_s", result.step_time)
    yield "batch_size", result.batch_size
    for name in ("p50", "p90", "p99", "max"):
        yield f"step_{name}_s", result.step_quantiles.get(name)
    yield "wait_share", result.wait_share
    yield from _estimate("training_s", result.training_s)
    yield "training_projected", result.training_projected if result.training_s else None
    yield "cold_start_s", sum(seconds for _, seconds in result.cold_start) if result.cold_start else None
    yield "peak_memory_bytes", result.memory_bytes
    yield from _estimate("energy_j_per_sample", result.energy_j_per_sample)
    yield "energy_source", result.energy_source
    yield "accuracy", result.accuracy
    yield "accuracy_samples", result.accuracy_samples
    yield "accuracy_ok", result.accuracy_ok
    for kind in RatioKind:
        yield from _estimate(kind.value, result.ratios.get(kind))
    for part in Part:
        value = result.breakdown.parts.get(part) if result.breakdown else None
        yield f"step_{part.value.replace(' ', '_')}_s", value.median if value else None
    use = result.peak_use
    yield "flops_per_sample", use.flops_per_sample if use else None
    yield "share_of_measured_peak", use.of_measured if use else None
    yield "mfu", use.of_sheet if use else None
    yield "needed_bandwidth", use.needed_bandwidth if use else None
    yield "reported_bandwidth", use.reported_bandwidth if use else None
    yield "limited_by", case.limit.cause.value if case.limit and variant == BASELINE else None
    yield "trial_ids", " ".join(result.trial_ids)


def _point_row(analysis: Analysis, sweep: Sweep, point: SweepPoint) -> Iterator[tuple[str, Any]]:
    yield from _run_cells(analysis)
    yield from {"workload": sweep.workload, "device": sweep.device, "variant": sweep.variant}.items()
    yield from ((f"param_{name}", scalar_word(value)) for name, value in point.point)
    yield "trials", point.throughput.n if point.throughput else 0
    yield from _estimate("samples_per_s", point.throughput)
    yield from _estimate("over_fastest", point.over_best)
    yield "may_be_fastest", point.tied
    yield "message", point.message


def _capability_row(analysis: Analysis, capability: Capability) -> Iterator[tuple[str, Any]]:
    yield from _run_cells(analysis)
    yield from {"workload": MACHINE, "device": capability.device, "variant": capability.name}.items()
    yield "readings", capability.value.n
    yield from _estimate("capability", capability.value)
    yield "capability_unit", capability.value.unit
    yield "data_sheet", capability.sheet
    standing = machine.standing_of(analysis, f"capability.{capability.name}", capability.device)
    yield "share_of_kind", standing.ratio if standing else None
    yield "sm_clock_mhz", capability.mhz
    yield "power_w", capability.power_w


def _run_cells(analysis: Analysis) -> Iterator[tuple[str, Any]]:
    manifest = analysis.run.manifest
    yield "run", manifest.run_id
    yield "created", manifest.created
    yield "machine", manifest.system.get("system_name") or manifest.system.get("host_processor_model_name")
    yield "gpus", "; ".join(dict.fromkeys(gpu.name for gpu in manifest.gpus))
    yield "profile", manifest.profile.name
    yield "tfbench", manifest.tfbench_version
    yield "commit", manifest.commit


def _result_row(versus: Versus, result: Result) -> Iterator[tuple[str, Any]]:
    run = versus.runs[result.run]
    yield "run", run.label
    yield "run_id", run.run_id
    yield "created", run.created
    yield "machine", run.machine
    yield from result.key._asdict().items()
    yield "trials", result.speed.n
    yield from _estimate("samples_per_s", result.speed)
    yield from _estimate("ratio", result.ratio)
    yield "outcome", result.outcome.value
    yield "not_comparable", " ".join(result.not_comparable)
    yield "reference", reference_name(versus)


def _estimate(name: str, value: Estimate | None) -> Iterator[tuple[str, Any]]:
    """Yield a median and its interval, which is empty for a single value."""
    has_interval = value is not None and value.n > 1
    yield name, value.median if value else None
    yield f"{name}_low", value.low if value and has_interval else None
    yield f"{name}_high", value.high if value and has_interval else None


def render_acceptance(analysis: Analysis) -> str:
    """Return a test case for each limit and device: a missed one fails, one that is not decided is skipped."""
    manifest = analysis.run.manifest
    suite = ET.Element("testsuite", name="tfbench acceptance", timestamp=manifest.created)
    for result, check in acceptance.rows(analysis.acceptance):
        limit = result.limit
        parts = (
            acceptance.short(limit, check) if check.value else "",
            check.outcome.value,
            acceptance.action(limit, check),
        )
        tag = {LimitOutcome.MISSED: "failure", LimitOutcome.MET: ""}.get(check.outcome, "skipped")
        label = f"{manifest.run_id}.{check.device}" if check.device else manifest.run_id
        _add_case(suite, tag, label, limit.text, "; ".join(filter(None, parts)))
    return _junit_text(suite)


def render_junit(versus: Versus, gate: Gate) -> str:
    """Return a test case for each comparison: a regression fails, an undecided one is skipped."""
    suite = ET.Element("testsuite", name="tfbench compare", timestamp=versus.runs[versus.reference].created)
    for result in versus.results:
        if result.ratio is not None:
            _add_result(suite, versus, gate, result)
    for run, key in gate.missing:
        _add_case(suite, "failure", versus.runs[run].label, " ".join(key), "measured in the baseline only")
    for run in gate.copied:
        _add_case(suite, "failure", versus.runs[run].label, "recording", "the same recording as the baseline")
    if gate.is_empty:
        _add_case(suite, "error", "all runs", "comparisons", "nothing could be compared")
    return _junit_text(suite)


def _junit_text(suite: ET.Element) -> str:
    for name, tag in (
        ("tests", "testcase"),
        ("failures", "failure"),
        ("errors", "error"),
        ("skipped", "skipped"),
    ):
        suite.set(name, str(len(list(suite.iter(tag)))))
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _add_result(suite: ET.Element, versus: Versus, gate: Gate, result: Result) -> None:
    assert result.ratio is not None
    limit, label = numbers.percent(versus.limit), versus.runs[result.run].label
    ratio, reference = numbers.ratio_estimate(result.ratio), reference_name(versus)
    text = f"{ratio} of {reference}: {result.outcome.value}"
    tag = ""
    if result in gate.failed:
        tag, text = "failure", f"{text} by {limit} or more"
    elif result.outcome is Outcome.UNKNOWN:
        tag, text = "skipped", f"{text}, which cannot show a difference"
    elif result in gate.open or result.outcome is Outcome.UNDECIDED:
        tag, text = "skipped", f"{text}; a difference of {limit} is neither shown nor excluded"
    _add_case(suite, tag, label, subject(versus, result), text)


def _add_case(suite: ET.Element, tag: str, label: str, name: str, text: str) -> None:
    """Add a test case; without a `tag` it passes and the text is its output."""
    case = ET.SubElement(
        suite, "testcase", classname=printable_xml(label), name=printable_xml(name), time="0"
    )
    if tag:
        ET.SubElement(case, tag, message=printable_xml(text))
    else:
        ET.SubElement(case, "system-out").text = printable_xml(text)


def results_document(analysis: Analysis) -> dict[str, Any]:
    """Return an analysis as a JSON-serialisable document with the fields of harness.model.analysis.

    "values" has every number that has a name in docs/limits.md.
    """
    plain = _plain(replace(analysis, cases=tuple(map(_without_telemetry, analysis.cases))))
    for case, measured in zip(plain["cases"], analysis.cases, strict=True):
        for variant, result in measured.variants.items():
            # JSON has no other names than text.
            telemetry = {".".join(reading): value for reading, value in result.telemetry.items()}
            case["variants"][variant]["telemetry"] = telemetry
    for trial in plain["run"]["trials"]:
        for name in LEFT_OUT:
            del trial[name]
    named = _plain(values(analysis))
    return {"schema": "tfbench-results", "schema_version": RESULTS_VERSION, "values": named, **plain}


def _without_telemetry(case: CaseResult) -> CaseResult:
    variants = {name: replace(result, telemetry={}) for name, result in case.variants.items()}
    return replace(case, variants=variants)


def comparison_document(versus: Versus, gate: Gate | None = None) -> dict[str, Any]:
    """Return a comparison as a JSON-serialisable document with the fields of harness.model.comparison.

    A result's "run" and the "reference" are positions in "runs".
    """
    schema = {"schema": "tfbench-comparison", "schema_version": 4}
    return {**schema, **_plain(versus), "gate": _plain(gate)}


def _plain(value: Any) -> Any:
    """Return a value as JSON types, with null for arrays, NaN and infinity."""
    other = msgspec.json.encode(value, enc_hook=lambda other: str(other) if isinstance(other, Path) else None)
    return msgspec.json.decode(other)
