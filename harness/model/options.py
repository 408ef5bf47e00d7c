"""What the user asked for: the options of a run, which its manifest keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.defaults import GPUS, PROFILE, RATE_HZ, RUNS


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the user asked for; see `tfbench bench --help` for each.

    Attributes:
        images: target ("cpu", "cuda") -> reference of an image of the user's own.
        gpus: indices, UUIDs or MIG UUIDs, comma-separated, or "all".
        params: parameter -> its value as text; several values, separated by commas, make it an axis of a sweep.
        rate_hz: telemetry samples a second, 0 for none.
        price: as harness.run.prices reads it, "" for none.
        cloud_metadata: ask the cloud's metadata service what this machine is, where the firmware names one.
        cpus: cpuset syntax; memory_bytes, cpu_quota: limits of each container, None for the default.
    """

    profile: str = PROFILE
    engine: str = "auto"
    device: str = "auto"
    gpus: str = GPUS
    workloads: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    images: Mapping[str, str] = field(default_factory=dict)
    base: str | None = None
    variants: str = ""
    analysis: bool = True
    params: Mapping[str, str] = field(default_factory=dict)
    trials: int | None = None
    out: Path = RUNS
    data: str = "auto"
    weights: Path | None = None
    rate_hz: float = RATE_HZ
    cpus: str = ""
    cpu_quota: float | None = None
    memory_bytes: int | None = None
    stall_s: float | None = None
    seed: int = 1
    price: str = ""
    cloud_metadata: bool = True

    @property
    def axes(self) -> Mapping[str, tuple[str, ...]]:
        """The parameters that have several values."""
        values = {
            name: tuple(part.strip() for part in text.split(",") if part.strip())
            for name, text in self.params.items()
        }
        return {name: texts for name, texts in values.items() if len(texts) > 1}

    @property
    def fixed_params(self) -> Mapping[str, str]:
        """The parameters that have one value."""
        return {name: text for name, text in self.params.items() if name not in self.axes}
