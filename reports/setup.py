"""The machine and how the workloads were run, as rows of name and value."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from harness.model.run import Manifest, Run
from reports import numbers

UNKNOWN = "not known"
_ACCELERATOR = "accelerator"  # the beginning of MLPerf's fields that only a host with a GPU has
# Said elsewhere on the page, or once already.
_SAID = frozenset({"profile", "name", "seed", "params", "engine", "variants"})
_UNITS = {"_bytes": ("", numbers.size), "_s": ("", numbers.duration)}


def system_rows(run: Run) -> list[tuple[str, str]]:
    """Give MLPerf's system description; a host without a GPU has no accelerator to describe."""
    return [
        (name, value_text(value))
        for name, value in run.system.items()
        if run.manifest.gpus or not name.startswith(_ACCELERATOR)
    ]


def setup_rows(run: Run) -> list[tuple[str, str]]:
    """Give the engine, the versions and the resolved parameters."""
    manifest = run.manifest
    engine = manifest.engine
    rows = [
        ("engine", f"{engine.name} {engine.version}".strip()),
        ("isolated in containers", "yes" if engine.isolated else "no"),
        ("rootless", value_text(engine.rootless)),
        ("cgroup version", UNKNOWN if engine.cgroup_version is None else str(engine.cgroup_version)),
        ("GPU handed over by", engine.gpu_access or "no GPU handed over"),
        ("tfbench", f"{manifest.tfbench_version}, commit {manifest.commit or 'unknown'}"),
        ("seed", str(manifest.seed)),
    ]
    return rows + list(_settings(manifest))


def _settings(manifest: Manifest) -> Iterator[tuple[str, str]]:
    yield "profile", manifest.profile.name
    groups = {
        "": {**asdict(manifest.options), "memory_limit_bytes": manifest.memory_limit_bytes},
        "profile's ": asdict(manifest.profile),
        "--param ": manifest.options.fixed_params,
    }
    for prefix, values in groups.items():
        for name, value in values.items():
            # What was left to its default is in the row of what it came to be.
            if name not in _SAID and value not in (None, "", [], {}, ()):
                yield _row(f"{prefix}{name}", value)
    if manifest.worker_nodes:
        yield "worker nodes", ", ".join(manifest.worker_nodes)
    if manifest.rerun_of:
        yield "rerun of", manifest.rerun_of


def _row(name: str, value: Any) -> tuple[str, str]:
    for ending, (replacement, write) in _UNITS.items():
        if name.endswith(ending) and isinstance(value, (int, float)) and not isinstance(value, bool):
            return f"{name.removesuffix(ending)}{replacement}".replace("_", " "), write(value)
    return name.replace("_", " "), value_text(value)


def field_rows(fields: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Give a mapping as rows of name and value; what is empty was not found out."""
    return [(str(name), value_text(value)) for name, value in fields.items()]


def value_text(value: Any) -> str:
    """Write one value of a manifest."""
    if isinstance(value, bool) or value is None:
        return state(value)
    if isinstance(value, (str, int)):
        return str(value) if value != "" else UNKNOWN
    if isinstance(value, float):
        return numbers.number(value, 4)
    if isinstance(value, (list, tuple)) and all(isinstance(one, (str, int)) for one in value):
        return ", ".join(map(str, value))
    if isinstance(value, Mapping) and all(isinstance(one, (str, int, float)) for one in value.values()):
        return ", ".join(f"{name}={one}" for name, one in value.items())
    return json.dumps(value, ensure_ascii=False, default=str)


def state(value: bool | None) -> str:
    """Write a setting that is on, off or cannot be read."""
    return numbers.MISSING if value is None else "on" if value else "off"
