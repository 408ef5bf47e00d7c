"""Workers that trained one model together, by their number: numbers, no sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.model.analysis import Estimate, Keyed
from harness.model.run import Placement, Run, Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What so many workers recorded.

    Attributes:
        run: the first worker's.
        others: trial id -> the same trial as each other worker recorded it, by the worker's number, from 1.
    """

    run: Run
    others: Mapping[str, Mapping[int, Trial]] = field(default_factory=dict)

    @property
    def placement(self) -> Placement:
        """Where the workers ran."""
        assert self.run.manifest.placement is not None  # such runs have one
        return self.run.manifest.placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What left one machine while a variant was measured, and came in: bytes/s, a worker of that machine.

    Attributes:
        nodes: the workers' nodes on the machine; the counters are the machine's, and divided by their number.
    """

    nodes: tuple[str, ...]
    sent_bytes_per_s: float | None
    received_bytes_per_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Point(Keyed):
    """One variant of one workload over so many workers.

    Attributes:
        throughput: samples/s of all workers together.
        efficiency: throughput over `workers` times that of one worker, 1 when nothing is lost; None without
            a run of one worker.
        step_time: seconds a step.
        exchange_s: one exchange of all gradients by itself: the most it can add to a step.
        added_s: what a step takes longer than with one worker: what exchanging, and waiting for the slowest,
            do add.
        gradient_bytes: what one worker has to exchange a step.
        traffic: of each machine, in the order of its first worker; () where nobody counted.
    """

    workers: int
    throughput: Estimate
    efficiency: Estimate | None
    step_time: Estimate
    exchange_s: float | None
    added_s: float | None
    gradient_bytes: float | None
    traffic: tuple[Traffic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """Training over several numbers of workers.

    Attributes:
        points: by workload, device and variant, the fewest workers first.
        placements: number of workers -> where they ran.
    """

    points: tuple[Point, ...]
    placements: Mapping[int, Placement]
