"""The definition of a case: its script, the planted bottleneck and the expected loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from harness.model.analysis import Cause

# The device waits for its data, as measured by xprof's input share and MLPerf Storage's utilisation.
INPUT_BOUND = frozenset({Cause.INPUT, Cause.DISK, Cause.OVERLAP, Cause.COPY})


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Resource limits and neighbours of the container.

    Attributes:
        cpus: CPUs to pin it to, in cpuset syntax; "" for all.
        cpu_quota: limit of CPU time, in CPUs; None for no limit.
        neighbours: busy processes in another container with the same pinning and no quota.
        disk_read_bytes_per_s: read limit for the disk that holds the data; 0 for none.
    """

    cpus: str = ""
    cpu_quota: float | None = None
    neighbours: int = 0
    disk_read_bytes_per_s: int = 0


@dataclass(frozen=True, slots=True)
class Case:
    """A script with a planted bottleneck, or without any.

    Attributes:
        planted: the right answer; COMPUTE if nothing is planted.
        script: name of a file in benchmarks/truth/scripts, without suffix; "" for a synthetic case.
        params: values of the script's constants.
        stage: the slow pipeline stage, without the line in the script; "" if there is none or several.
        lost: share of time lost, if the parameters define it; else None.
        step_s: step time without the bottleneck, if known.
        control: name of the same case without the bottleneck, whose step time is the reference.
        device: "cpu" or "gpu".
        mixed: the bottleneck is not input itself but also makes the device wait for input.
        also: other causes that count as right, if two are planted.
        recording: recorded run to evaluate instead of running the script.
        telemetry: NVML metric -> reading that replaces the recorded one.
    """

    name: str
    planted: Cause
    script: str
    text: str
    params: Mapping[str, Any] = field(default_factory=dict)
    _: KW_ONLY
    environment: Environment = Environment()
    stage: str = ""
    lost: float | None = None
    step_s: float | None = None
    control: str = ""
    device: str = "cpu"
    mixed: bool = False
    also: tuple[Cause, ...] = ()
    recording: str = ""
    telemetry: Mapping[str, float] = field(default_factory=dict)

    @property
    def input_bound(self) -> bool:
        """Whether the device waits for its data."""
        return self.planted in INPUT_BOUND
