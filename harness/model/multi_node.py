"""Results of training with several workers: numbers, no sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.model.analysis import Estimate, Keyed
from harness.model.run import Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPoint(Keyed):
    """One workload, device and variant with a given number of workers.

    Attributes:
        throughput: samples/s of all workers together.
        efficiency: throughput / (`workers` x throughput of one worker), 1 is ideal; None without a
            one-worker run.
        step_time: seconds per step.
        exchange_s: time to exchange all gradients once, measured alone: an upper bound of what it adds to a
            step.
        added_s: step time minus that of one worker: actual cost of exchange and of waiting for the slowest
            worker.
        gradient_bytes: gradients exchanged by one worker per step.
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
    """Training with different numbers of workers.

    Attributes:
        points: by workload, device and variant, fewest workers first.
        placements: number of workers -> where they ran.
    """

    points: tuple[ScalingPoint, ...]
    placements: Mapping[int, Placement]
