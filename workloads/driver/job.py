"""One variant of a trial, and state shared between variants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import tensorflow as tf

from workloads.driver.call import Call
from workloads.driver.timing import Meter
from workloads.protocol import BASELINE, EventWriter, Spec


@dataclass
class Shared:
    """State that later variants reuse.

    Attributes:
        call: the baseline's call; None before the script has run.
        params: the parameters of the baseline's call.
        step: the baseline's step (batch -> loss), compiled once for all variants of the breakdown.
        step_ns, sample_ns: variant -> time of a step in its windows, and of a sample.
        wait_share: share of the custom loop's time spent waiting for input; None before it has run.
        bound_ms: the latency bound that the baseline meets as a server; 0 if none.
        eager, callbacks: whether the baseline runs eagerly, and whether the script has per-batch callbacks.
        samples: number that the baseline has trained on; 0 before.
    """

    call: Call | None = None
    params: dict[str, Any] = field(default_factory=dict)
    step: Callable[[Any], Any] | None = None
    step_ns: dict[str, float] = field(default_factory=dict)
    sample_ns: dict[str, float] = field(default_factory=dict)
    wait_share: float | None = None
    bound_ms: float = 0.0
    eager: bool = False
    callbacks: bool = False
    samples: int = 0


@dataclass(frozen=True, kw_only=True)
class Job:
    """One variant of a trial.

    Attributes:
        devices: TensorFlow's names of this process's devices.
        strategy: distribution strategy for several devices, else None.
    """

    spec: Spec
    events: EventWriter
    meter: Meter
    devices: Sequence[str]
    strategy: tf.distribute.Strategy | None = None
    shared: Shared = field(default_factory=Shared)
    variant: str = BASELINE

    def of(self, variant: str, meter: Meter) -> Job:
        """Return this job with another variant."""
        return replace(self, variant=variant, meter=meter)

    @property
    def call(self) -> Call:
        """The baseline's call."""
        assert self.shared.call is not None  # variants of the breakdown run after the script
        return self.shared.call

    @property
    def gpu(self) -> bool:
        """Whether the devices are GPUs."""
        return self.spec.device == "gpu"

    def metric(self, name: str, value: float) -> None:
        """Write a metric of the variant."""
        self.events.metric(self.variant, name, value)
