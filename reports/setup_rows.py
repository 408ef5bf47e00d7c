"""The machine and how the workloads were run, as rows of name and value."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from harness.model.run import Manifest, Run
from reports import numbers

_ACCELERATOR = "accelerator"  # the beginning of MLPerf's fields that only a host with a GPU has
# Said elsewhere on the page, or once already.
_SAID = frozenset({"profile", "name", "seed", "params", "engine", "variants"})


def system_rows(run: Run) -> list[tuple[str, str]]:
    """Give MLPerf's system description; a host without a GPU has no accelerator to describe."""
    return [
        (name, _text(value))
        for name, value in run.system.items()
        if run.manifest.gpus or not name.startswith(_ACCELERATOR)
    ]


def setup_rows(run: Run) -> list[tuple[str, str]]:
    """Give the engine, the versions and the resolved parameters."""
    manifest = run.manifest
    engine = manifest.engine
    return [
        ("engine", f"{engine.name} {engine.version}".strip()),
        ("isolated in containers", "yes" if engine.isolated else "no"),
        ("rootless", state(engine.rootless)),
        ("cgroup version", _text(engine.cgroup_version)),
        ("GPU handed over by", engine.gpu_access or "no GPU handed over"),
        ("tfbench", f"{manifest.tfbench_version}, commit {manifest.commit or 'unknown'}"),
        ("seed", str(manifest.options.seed)),
        *(_row(name, value) for name, value in _settings(manifest)),
    ]


def _settings(manifest: Manifest) -> Iterator[tuple[str, Any]]:
    yield "profile", manifest.profile.name
    groups = {
        "": {**asdict(manifest.options), "memory_limit_bytes": manifest.memory_limit_bytes},
        "profile's ": asdict(manifest.profile),
        "--param ": manifest.options.fixed_params,
        " ": {"worker_nodes": manifest.placement and manifest.placement.nodes, "rerun_of": manifest.rerun_of},
    }
    for prefix, values in groups.items():
        for name, value in values.items():
            # What was left to its default is in the row of what it came to be.
            if name not in _SAID and value not in (None, "", [], {}, ()):
                yield f"{prefix}{name}".strip(), value


def _row(name: str, value: Any) -> tuple[str, str]:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        for ending, write in (("_bytes", numbers.size), ("_s", numbers.duration)):
            if name.endswith(ending):
                return name.removesuffix(ending).replace("_", " "), write(value)
    return name.replace("_", " "), _text(value)


def _text(value: Any) -> str:
    """Write one value of a manifest."""
    if isinstance(value, bool) or value is None:
        return state(value)
    if isinstance(value, float):
        return numbers.number(value, 4)
    if isinstance(value, (str, int)):
        return str(value) or "not known"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return json.dumps(value, ensure_ascii=False, default=str)


def state(value: bool | None) -> str:
    """Write a setting that is on, off or cannot be read."""
    return numbers.MISSING if value is None else "on" if value else "off"
