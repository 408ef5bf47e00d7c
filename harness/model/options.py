"""Options of a run, as stored in its manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.defaults import GPUS, PROFILE, RATE_HZ, RUNS


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options given by the user; see `tfbench bench --help`.

    Attributes:
        workloads: names of built-in workloads and paths of scripts.
        arguments, environment: of the scripts.
        mounts: files and folders that the scripts read, at the same path.
        call: which call of fit is measured, from 1.
        images: target ("cpu", "cuda") -> reference of the user's own image.
        gpus: indices, UUIDs or MIG UUIDs, comma-separated, or "all".
        soak_s: how long to saturate each device, 0 for not at all.
        machine: measure what the machine can do, unless variants or a sweep were chosen.
        params: parameter -> value as text; comma-separated values form a sweep axis.
        rate_hz: telemetry samples per second, 0 for none.
        price: in the format of harness.run.resolve, or "".
        cloud_metadata: query the cloud's metadata service if the firmware identifies a cloud: machine, and its end.
        cpus: cpuset syntax; memory_gib, cpu_quota: limits of each container, None for the default.
    """

    profile: str = PROFILE
    engine: str = "auto"
    device: str = "auto"
    gpus: str = GPUS
    workloads: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Path, ...] = ()
    call: int = 1
    images: Mapping[str, str] = field(default_factory=dict)
    variants: str = ""
    soak_s: float = 0.0
    analysis: bool = True
    machine: bool = True
    params: Mapping[str, str] = field(default_factory=dict)
    trials: int | None = None
    out: Path = RUNS
    data: str = "auto"
    rate_hz: float = RATE_HZ
    cpus: str = ""
    cpu_quota: float | None = None
    memory_gib: float | None = None
    stall_s: float | None = None
    seed: int = 1
    price: str = ""
    cloud_metadata: bool = True

    @property
    def fixed_params(self) -> Mapping[str, str]:
        """Parameters with a single value, which form no sweep."""
        return {name: text for name, text in self.params.items() if "," not in text}
