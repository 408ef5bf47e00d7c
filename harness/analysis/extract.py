"""Extract from a run what comparisons need: speeds of each trial, breakdowns, and facts that may differ."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from harness.analysis.trial_measures import usual_probe
from harness.model.analysis import Analysis
from harness.model.comparison import Extract, Section, Speed
from harness.model.run import Manifest, Run, Status
from harness.model.workload import BESIDE
from harness.options import OPTIONS
from workloads.variants import BASELINE, TUNED

# Other variants only serve to break down the step time.
COMPARED = (BASELINE, TUNED)


def extract(analysis: Analysis) -> Extract:
    """Return the extract of a run."""
    run = analysis.run
    manifest = run.manifest
    speeds = tuple(_speeds(analysis))
    run_facts = facts(run)
    for each in speeds:
        if each.variant == BASELINE:
            run_facts[Section.WORKLOADS][batch_field(each.workload, each.device)] = str(each.batch_size)
    return Extract(
        run_id=manifest.run_id,
        label=manifest.run_id,
        created=manifest.created,
        machine=machine_name(manifest),
        facts=run_facts,
        speeds=speeds,
        caveats=tuple(each for each in analysis.caveats if not each.is_note),
        health=analysis.problems,
        capabilities=analysis.capabilities,
        titles={workload.name: workload.title or workload.name for workload in run.workloads},
        images={workload.name: workload.image for workload in run.workloads},
        probe=usual_probe(run.trials),
        duration_s=run.duration_s,
        adaptive=manifest.profile.trials < manifest.profile.max_trials,
        planned=len(run.planned),
        ok=sum(trial.status is Status.OK for trial in run.trials),
        unfinished=run.unfinished,
        swept=len({(each.workload, each.device, each.point) for each in run.planned if each.point}),
        currency=manifest.prices.currency if manifest.prices else "",
    )


def batch_field(workload: str, device: str) -> str:
    """Return the name of the fact with the baseline's batch size."""
    return f"{workload} {device} batch size"


def _speeds(analysis: Analysis) -> Iterator[Speed]:
    for case, variant, result in analysis.variants:
        if variant not in COMPARED:
            continue
        energy, per_million = result.energy_j_per_sample, result.cost and result.cost.per_million_samples
        yield Speed(
            workload=case.workload,
            device=case.device,
            variant=variant,
            throughput=result.trial_throughputs,
            batch_size=result.batch_size,
            energy_j_per_sample=energy.median if energy else None,
            energy_source=result.energy_source,
            cost_per_million=per_million.median if per_million else None,
            learned=result.accuracy_ok,
            breakdown=result.breakdown,
            finding=case.limit,
        )


# Fields that identify a single GPU rather than its model.
_IDENTITY = frozenset({"index", "uuid", "mig_uuid", "minor_number"})
_NOT_SETTINGS = frozenset({"name", "budget_s", "limit_s", "stall_s"})
_VERSIONS = ("tensorflow", "keras", "xgboost", "python", "numpy", "cuda", "cudnn")
# Parts of a workload's declaration that do not affect what runs, or are in its scripts.
_DESCRIPTION = ("published", "title", "suite", "source", "params")


def facts(run: Run) -> dict[Section, dict[str, str]]:
    """Return section -> field -> value of everything that may differ between runs, without empty values."""
    result: dict[Section, dict[str, str]] = {section: {} for section in Section}
    for section, name, value in _facts(run):
        if text := _fact_text(value):
            result[section][name] = text
    return result


def machine_name(manifest: Manifest) -> str:
    """Return a machine's GPUs, CPU and limits: "NVIDIA H200 · Intel Xeon, 8 of 16 vCPU"."""
    gpus = Counter(gpu.name for gpu in manifest.gpus)
    system, options = manifest.system, manifest.options
    vcpus = system.get("host_processor_vcpu_count")
    parts = [system.get("host_processor_model_name") or system.get("system_name") or "unknown CPU"]
    used = len(manifest.pinned)
    if vcpus:
        parts.append(f"{used} of {vcpus} vCPU" if used and str(used) != vcpus else f"{vcpus} vCPU")
    if options.cpu_quota:
        parts.append(f"quota of {options.cpu_quota:g} CPUs")
    names = [f"{count} × {name}" if count > 1 else name for name, count in gpus.items()]
    return " · ".join((*names, ", ".join(parts)))


def _facts(run: Run) -> Iterator[tuple[Section, str, Any]]:
    yield from _machine(run.manifest)
    yield from _software(run)
    yield from _settings(run.manifest)
    for workload in run.workloads:
        declared = {name: value for name, value in asdict(workload).items() if name not in _DESCRIPTION}
        yield Section.WORKLOADS, f"declaration of {workload.name}", _digest(declared)
    for name, digest in run.manifest.sources.items():
        kind = "package" if name == "workloads" else "file" if name.startswith("/") else "Python files of"
        yield Section.WORKLOADS, name if name.startswith(BESIDE) else f"{kind} {name}", digest


def _machine(manifest: Manifest) -> Iterator[tuple[Section, str, Any]]:
    for name, value in manifest.system.items():
        if name != "operating_system":
            yield Section.MACHINE, name, value
    for name, fact in manifest.host_facts.items():
        if name not in ("boot_id", "kernel"):
            yield Section.MACHINE, name, fact
    yield Section.LIMITS, "memory of a container", manifest.memory_limit_bytes
    for gpu in manifest.gpus:
        for name, setting in asdict(gpu).items():
            if name in ("driver_version", "cuda_version"):
                yield Section.DRIVER, name, setting
            elif name not in _IDENTITY:
                yield Section.GPUS, f"GPU {gpu.index} {name}", setting


def _software(run: Run) -> Iterator[tuple[Section, str, Any]]:
    manifest = run.manifest
    for image in manifest.images:
        # Prefer the lock: the engine's content id differs between builds of the same lock.
        yield Section.IMAGES, image.target, image.lock_sha256 or image.digest
        yield Section.IMAGES, f"{image.target} base", image.base
        yield Section.SOFTWARE, f"{image.target} image contents", image.contents or image.digest
    for data in manifest.data:
        yield Section.DATA, data.workload, " ".join(filter(None, (data.name, data.kind, data.sha256[:12])))
    software = {
        "operating_system": manifest.system.get("operating_system"),
        "kernel": manifest.host_facts.get("kernel"),
        "engine": f"{manifest.engine.name} {manifest.engine.version}".strip(),
        "isolated": manifest.engine.isolated,
        "cgroup version": manifest.engine.cgroup_version,
        "tfbench": manifest.tfbench_version,
        "tfbench commit": manifest.commit[:12],
        "GPU handed over by": manifest.engine.gpu_access,
    }
    for name in _VERSIONS:
        versions = dict.fromkeys(str(trial.facts[name]) for trial in run.trials if name in trial.facts)
        software[name] = ", ".join(versions)
    for name, value in software.items():
        yield Section.SOFTWARE, name, value


def _settings(manifest: Manifest) -> Iterator[tuple[Section, str, Any]]:
    yield Section.SETTINGS, "profile", manifest.profile.name
    for name, value in asdict(manifest.profile).items():
        if name not in _NOT_SETTINGS:
            yield Section.SETTINGS, name, value
    for name, option in OPTIONS.items():
        if option.compared:
            value = getattr(manifest.options, name)
            if not isinstance(value, (bool, int, float)):
                # Said of both runs, because only what is known of both is compared.
                value = option.text(value) if value else "not set"
            yield Section(option.compared), name, value


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:12]


def _fact_text(value: Any) -> str:
    if value is None or value in ("", [], {}, ()):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return ", ".join(_fact_text(each) for each in value)
    return str(value)
