"""Facts that may differ between runs, as text by section and field, and the name of the machine."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from harness.cpuset import cpu_numbers
from harness.model.comparison import Section
from harness.model.run import Manifest, Run

# Fields that identify a single GPU rather than its model.
_IDENTITY = frozenset({"index", "uuid", "mig_uuid", "minor_number"})
_LIMITS = ("cpus", "cpu_quota", "gpus")
_OPTIONS = ("variants", "analysis", "rate_hz", "stall_s", "seed")
_NOT_SETTINGS = frozenset({"name", "budget_s", "limit_s", "stall_s"})
_VERSIONS = ("tensorflow", "keras", "xgboost", "python", "numpy", "cuda", "cudnn")
# Parts of a workload's declaration that do not affect what runs.
_DESCRIPTION = ("published", "title", "suite", "source")


def facts(run: Run) -> dict[Section, dict[str, str]]:
    """Return section -> field -> value of everything that may differ between runs, without empty values."""
    result: dict[Section, dict[str, str]] = {section: {} for section in Section}
    for section, name, value in _facts(run):
        if text := _text(value):
            result[section][name] = text
    return result


def machine_name(manifest: Manifest) -> str:
    """Return a machine's GPUs, CPU and limits: "NVIDIA H200 · Intel Xeon, 8 of 16 vCPU"."""
    gpus = Counter(gpu.name for gpu in manifest.gpus)
    system, options = manifest.system, manifest.options
    vcpus = system.get("host_processor_vcpu_count")
    parts = [system.get("host_processor_model_name") or system.get("system_name") or "unknown CPU"]
    used = len(cpu_numbers(options.cpus))
    parts += [f"{used} of {vcpus} vCPU" if used and str(used) != vcpus else f"{vcpus} vCPU"] if vcpus else []
    parts += [f"quota of {options.cpu_quota:g} CPUs"] if options.cpu_quota else []
    names = [f"{count} × {name}" if count > 1 else name for name, count in gpus.items()]
    return " · ".join((*names, ", ".join(parts)))


def _facts(run: Run) -> Iterator[tuple[Section, str, Any]]:
    yield from _machine(run.manifest)
    yield from _software(run)
    yield from _settings(run.manifest)
    for workload in run.workloads:
        declared = {name: value for name, value in asdict(workload).items() if name not in _DESCRIPTION}
        yield Section.WORKLOADS, f"{workload.name} declaration", _digest(declared)
    for name, digest in run.manifest.sources.items():
        yield Section.WORKLOADS, "workloads package" if name == "workloads" else f"{name} file", digest


def _machine(manifest: Manifest) -> Iterator[tuple[Section, str, Any]]:
    for name, value in manifest.system.items():
        if name != "operating_system":
            yield Section.MACHINE, name, value
    for name, fact in manifest.host_facts.items():
        if name not in ("boot_id", "kernel"):
            yield Section.MACHINE, name, fact
    for name in _LIMITS:
        yield Section.LIMITS, name, getattr(manifest.options, name)
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
    for name in _OPTIONS:
        yield Section.SETTINGS, name, getattr(manifest.options, name)
    for name, value in manifest.options.fixed_params.items():
        yield Section.SETTINGS, f"--param {name}", value


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:12]


def _text(value: Any) -> str:
    if value is None or value in ("", [], {}, ()):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return ", ".join(_text(each) for each in value)
    return str(value)
