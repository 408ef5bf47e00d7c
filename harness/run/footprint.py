"""What each workload costs to run, as measured: `python -m benchmarks.footprint` writes footprint.json from runs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

from harness.run.plain import from_plain


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """What a workload took in one profile.

    Attributes:
        profile: "smoke" or "quick".
        trial_s: seconds of one trial's container on the CPU, median.
        trials: how many trials the profile runs at least.
        memory_bytes: most that the container used.
        data_bytes: of its dataset on disk.
        machine: what it ran on.
    """

    profile: str
    trial_s: float
    trials: int
    memory_bytes: int | None
    data_bytes: int
    machine: str

    @property
    def run_s(self) -> float:
        """Seconds for the profile's fewest trials."""
        return self.trial_s * self.trials


def footprints() -> Mapping[str, tuple[Footprint, ...]]:
    """Return what is known, by workload; one that was never measured is missing."""
    path = resources.files("harness.run") / "footprint.json"
    return from_plain(json.loads(path.read_text(encoding="utf-8")), dict[str, tuple[Footprint, ...]])
