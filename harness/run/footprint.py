"""Measured cost of each workload; `python -m benchmarks.footprint` writes footprint.json from runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.run.json_values import from_plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """Cost of a workload in one profile.

    Attributes:
        profile: "smoke" or "quick".
        trial_s: median duration of a trial on the CPU.
        trials: minimum number of trials.
        memory_bytes: peak memory of the container.
        data_bytes: size of its dataset on disk.
        machine: where it was measured.
    """

    profile: str
    trial_s: float
    trials: int
    memory_bytes: int | None
    data_bytes: int
    machine: str


def footprints() -> Mapping[str, tuple[Footprint, ...]]:
    """Return footprints by workload; workloads that were not measured are missing."""
    path = Path(__file__).with_suffix(".json")
    return from_plain(json.loads(path.read_text(encoding="utf-8")), dict[str, tuple[Footprint, ...]])
