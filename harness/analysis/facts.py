"""What may differ between two runs, as text by section and field, and what kind of machine it is."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from harness.model.comparison import SETTINGS
from harness.model.run import Run, Trial

MACHINE, LIMITS, CARDS, DRIVER, SOFTWARE, IMAGE, DATA, PROFILE, WORKLOAD = SECTIONS = (
    "machine",  # MLPerf's system description and what else is known of the host
    "limits",  # what the containers may use of it
    "GPUs",
    "driver",
    "software",
    "images",
    "data",
    SETTINGS,
    "workloads",
)

# What differs from run to run on one machine, and says nothing of it.
_PASSING = frozenset(
    {"boot_id", "load_1min", "free_disk_bytes", "own_memory_limit_bytes", "own_cpu_limit_cpus"}
)
# In other sections, with more detail.
_ELSEWHERE = frozenset({"framework", "other_software_stack", "operating_system"})
# Which GPU it is, not what GPU.
_WHICH_CARD = frozenset(
    {"index", "uuid", "mig_uuid", "minor_number", "gpu_instance_id", "compute_instance_id"}
)
_LIMITS = ("cpus", "cpu_quota", "memory_bytes", "gpus")
_OPTIONS = ("variants", "analysis", "rate_hz", "stall_s", "seed")
_VERSIONS = ("tensorflow", "keras", "xgboost", "python", "numpy", "cuda", "cudnn")


def facts(run: Run) -> dict[str, dict[str, str]]:
    """Return section -> field -> value of all that may make a run differ from another; "" is left out."""
    found: dict[str, dict[str, str]] = {section: {} for section in SECTIONS}
    for section, name, value in _facts(run):
        text = _text(value)
        if text:
            found[section][name] = text
    return found


def machine(run: Run) -> str:
    """Say what kind of machine it is: GPUs, CPUs, and what of them the containers could use."""
    system = run.manifest.system
    names: dict[str, int] = {}
    for card in run.manifest.gpus:
        names[card.name] = names.get(card.name, 0) + 1
    cards = [f"{count} × {name}" for name, count in names.items()]
    vcpus = system.get("host_processor_vcpu_count", "")
    model = system.get("host_processor_model_name", "") or "unknown CPU"
    parts = [*cards, f"{vcpus} vCPU {model}" if vcpus else model]
    options = _options(run)
    if options.get("cpus"):
        parts.append(f"on CPUs {options['cpus']}")
    if options.get("cpu_quota"):
        parts.append(f"{options['cpu_quota']:g} CPUs' time")
    return ", ".join(parts)


def _facts(run: Run) -> Iterator[tuple[str, str, Any]]:
    options = _options(run)
    yield from _machine(run, options)
    yield from _software(run)
    yield from _profile(run, options)
    for workload in run.workloads:
        document = asdict(workload)
        for name in ("published", "title", "suite", "source"):
            document.pop(name)
        yield WORKLOAD, f"{workload.name} declaration", _digest(document)
    for name, digest in run.manifest.sources.items():
        yield WORKLOAD, "workloads package" if name == "workloads" else f"{name} file", digest


def _machine(run: Run, options: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    manifest = run.manifest
    for name, value in manifest.system.items():
        if name not in _ELSEWHERE:
            yield MACHINE, name, value
    for name, fact in manifest.host_facts.items():
        if name not in _PASSING and name != "kernel":
            yield MACHINE, name, fact
    for name in _LIMITS:
        yield LIMITS, name, options.get(name)
    for card in manifest.gpus:
        for name, setting in asdict(card).items():
            if name in ("driver_version", "cuda_version"):
                yield DRIVER, name, setting
            elif name not in _WHICH_CARD:
                yield CARDS, f"GPU {card.index} {name}", setting


def _software(run: Run) -> Iterator[tuple[str, str, Any]]:
    manifest = run.manifest
    for image in manifest.images:
        # The engine's content id differs wherever the same lock is built: the lock says what is in it.
        yield IMAGE, image.target, image.lock_sha256 or image.digest
        yield IMAGE, f"{image.target} base", image.base
        yield SOFTWARE, f"{image.target} image contents", image.contents or image.digest
    for data in manifest.data:
        yield DATA, data.workload, " ".join(filter(None, (data.name, data.kind, data.sha256[:12])))
    yield SOFTWARE, "operating_system", manifest.system.get("operating_system", "")
    yield SOFTWARE, "kernel", manifest.host_facts.get("kernel")
    yield SOFTWARE, "engine", f"{manifest.engine.name} {manifest.engine.version}".strip()
    yield SOFTWARE, "isolated", manifest.engine.isolated
    yield SOFTWARE, "cgroup version", manifest.engine.cgroup_version
    yield SOFTWARE, "tfbench", manifest.tfbench_version
    yield SOFTWARE, "tfbench commit", manifest.commit[:12]
    yield SOFTWARE, "GPU handed over by", manifest.engine.gpu_access
    for name in _VERSIONS:
        yield SOFTWARE, name, ", ".join(_values(run.trials, name))


def _profile(run: Run, options: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    parameters = run.manifest.parameters
    yield PROFILE, "profile", parameters.get("profile")
    settings = parameters.get("settings")
    for name, value in (settings if isinstance(settings, Mapping) else {}).items():
        if name not in ("name", "purpose", "budget_s", "limit_s", "stall_s"):
            yield PROFILE, name, value
    for name in _OPTIONS:
        yield PROFILE, name, options.get(name)
    params = parameters.get("params")
    for name, value in (params if isinstance(params, Mapping) else {}).items():
        yield PROFILE, f"--param {name}", value


def _options(run: Run) -> Mapping[str, Any]:
    options = run.manifest.parameters.get("options")
    return options if isinstance(options, Mapping) else {}


def _values(trials: tuple[Trial, ...], name: str) -> list[str]:
    return list(dict.fromkeys(str(trial.facts[name]) for trial in trials if name in trial.facts))


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
        return ", ".join(_text(one) for one in value)
    return str(value)
