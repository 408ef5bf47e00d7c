"""Read GPU names from Container Device Interface (CDI) specifications."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from harness.model.platform import Gpu

KIND = "nvidia.com/gpu"


def cdi_names(folders: Sequence[str], gpus: Sequence[Gpu], root: Path) -> tuple[tuple[str, ...], str]:
    """Return the qualified CDI name of each GPU, or () and the reason.

    Args:
        folders: the engine's specification folders; empty if it does not support CDI.
    """
    if not folders:
        return (), "the engine does not support CDI"
    available = {name for folder in folders for name in _devices(root / folder.lstrip("/"))}
    if not available:
        return (), f"no CDI specification of {KIND} in {' or '.join(folders)}"
    names = []
    for gpu in gpus:
        matching = [name for name in _possible_names(gpu) if name in available]
        if not matching:
            missing = gpu.cuda_id
            return (), f"the CDI specification does not list {missing} (update it: nvidia-ctk cdi generate)"
        names.append(f"{KIND}={matching[0]}")
    return tuple(names), ""


def _possible_names(gpu: Gpu) -> tuple[str, ...]:
    """Return the names under nvidia-ctk's naming strategies (uuid, index)."""
    return (gpu.mig_uuid,) if gpu.mig_uuid else (gpu.uuid, str(gpu.index), f"gpu{gpu.index}")


def _devices(folder: Path) -> Iterator[str]:
    for path in sorted(folder.glob("*")):
        if path.suffix not in (".json", ".yaml", ".yml"):
            continue
        try:
            text = path.read_text(encoding="utf-8")
            # PyYAML does not accept JSON with tabs.
            spec: Any = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
        except (OSError, ValueError, yaml.YAMLError):
            # The engine ignores invalid files too.
            continue
        if isinstance(spec, dict) and spec.get("kind") == KIND:
            yield from (str(device["name"]) for device in spec.get("devices") or () if "name" in device)
