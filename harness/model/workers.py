"""Workers that trained one model together, by their number: numbers, no sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.model.analysis import Estimate, Keyed
from harness.model.run import Placement


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
    """

    workers: int
    throughput: Estimate
    efficiency: Estimate | None
    step_time: Estimate
    exchange_s: float | None
    added_s: float | None
    gradient_bytes: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """Training over several numbers of workers.

    Attributes:
        points: by workload, device and variant, the fewest workers first.
        placements: number of workers -> where they ran.
    """

    points: tuple[Point, ...]
    placements: Mapping[int, Placement]
