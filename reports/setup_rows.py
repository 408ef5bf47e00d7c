"""The machine and how the workloads were run, as rows of name and value."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from harness.model.run import Run
from reports import numbers

_ACCELERATOR = "accelerator"  # the beginning of MLPerf's fields that only a host with a GPU has
# Parameters whose parts are worth a row of their own, and what a part's name is preceded by.
_NESTED = {"options": "", "settings": "profile's ", "params": "--param "}
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
        ("seed", str(manifest.seed)),
        *(_row(name, value) for name, value in _parameters(manifest.parameters)),
    ]


def _parameters(parameters: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in parameters.items():
        if name in _NESTED and isinstance(value, Mapping):
            for part, inner in value.items():
                # What was left to its default is in the row of what it came to be.
                if part not in _SAID and inner not in (None, "", [], {}, ()):
                    yield f"{_NESTED[name]}{part}", inner
        else:
            yield name, value


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
