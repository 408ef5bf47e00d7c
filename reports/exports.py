"""Write a run's results for other programs: github-action-benchmark, Bencher, OpenMetrics and MLPerf."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from harness.model.analysis import Analysis, Estimate, Summary
from reports import numbers
from reports.escaping import harmless

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

# Name, labels and value of a gauge.
Sample = tuple[str, Mapping[str, str], float]


def render_github(analysis: Analysis) -> str:
    """Return speeds as github-action-benchmark's customBiggerIsBetter."""
    run_id = analysis.run.manifest.run_id
    return _json(
        [
            {
                "name": "/".join(each.key),
                "unit": "samples/s",
                "value": each.throughput.median,
                "range": numbers.spread(each.throughput),
                "extra": f"batch {each.batch_size}, trials {each.throughput.n}, run {run_id}",
            }
            for each in analysis.summaries
        ]
    )


def render_bencher(analysis: Analysis) -> str:
    """Return speeds in samples/s and step times in ns in the Bencher Metric Format."""
    return _json(
        {
            "/".join(each.key): {
                "throughput": _bencher(each.throughput),
                "latency": _bencher(each.step_time, 1e9),
                **({"energy": _bencher(each.energy_j_per_sample)} if each.energy_j_per_sample else {}),
            }
            for each in analysis.summaries
        }
    )


def _bencher(value: Estimate, scale: float = 1.0) -> dict[str, float]:
    ends = {"lower_value": value.low * scale, "upper_value": value.high * scale} if value.n > 1 else {}
    return {"value": value.median * scale, **ends}


def render_openmetrics(analysis: Analysis) -> str:
    """Return a run's summaries as OpenMetrics text, with the ends of each interval as gauges of their own."""
    manifest = analysis.run.manifest
    run = {"run_id": manifest.run_id}
    about = {
        "created": manifest.created,
        "profile": manifest.profile.name,
        "framework": analysis.run.framework,
    }
    speeds = (
        (name, {**run, **summary.key._asdict()}, value)
        for summary in analysis.summaries
        for name, value in _gauges(summary)
    )
    return openmetrics_text((("run", {**run, **about}, 1), *speeds))


def openmetrics_text(samples: Iterable[Sample]) -> str:
    """Return gauges as OpenMetrics text; "tfbench_" is put before their names."""
    families: dict[str, list[str]] = {}
    for name, labels, value in samples:
        families.setdefault(f"tfbench_{name}", []).append(f"tfbench_{name}{_labels(labels)} {value!r}")
    lines = (line for name, each in families.items() for line in (f"# TYPE {name} gauge", *each))
    return "\n".join((*lines, "# EOF")) + "\n"


def _gauges(summary: Summary) -> Iterator[tuple[str, float]]:
    yield "trials", summary.throughput.n
    for name, value in (
        ("samples_per_second", summary.throughput),
        ("step_seconds", summary.step_time),
        ("sample_joules", summary.energy_j_per_sample),
    ):
        if value is not None:
            yield name, value.median
            if value.n > 1:
                yield from ((f"{name}_low", value.low), (f"{name}_high", value.high))
    if summary.wait_share is not None:
        yield "wait_ratio", summary.wait_share


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
