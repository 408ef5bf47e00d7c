"""What a planted bottleneck is: what runs, what was planted, and what that costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from harness.model.analysis import Cause

# The device waits for its data: what xprof's input share and MLPerf Storage's utilisation are meant to tell.
INPUT_BOUND = frozenset({Cause.INPUT, Cause.DISK, Cause.OVERLAP, Cause.COPY})


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What the container meets, beside the workload.

    Attributes:
        cpus: CPUs it is pinned to, as cpuset syntax; "" for all.
        cpu_quota: CPUs' worth of time; None for no limit.
        neighbours: processes that compute without end in another container with the same rights.
        disk_read_bytes_per_s: limit of its reads from the disk that holds the data; 0 for none.
    """

    cpus: str = ""
    cpu_quota: float | None = None
    neighbours: int = 0
    disk_read_bytes_per_s: int = 0


@dataclass(frozen=True, slots=True)
class Case:
    """One planted bottleneck, or one workload without any.

    Attributes:
        planted: the right answer; COMPUTE where nothing was planted.
        workload: "truth-WORKLOAD" of one of the files in benchmarks/truth/workloads; "" for a stand-in.
        params: over those that the file declares.
        stage: the stage of the pipeline that is to blame; "" where none is or several are.
        lost: share of the time lost, where the parameters alone tell it; None where they do not.
        step_s: what a step takes without the bottleneck, where that is known: the rest of it is lost.
        control: the case that is the same without the bottleneck: its step time is what was to be reached.
        device: "cpu" or "gpu".
        mixed: the bottleneck is another, and makes the device wait for its input too.
        also: causes that are as right an answer, where two were planted alike.
        recording: a recorded run to judge instead of running anything.
        telemetry: metric of NVML -> reading, put over those of the recording.
    """

    name: str
    planted: Cause
    workload: str
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
