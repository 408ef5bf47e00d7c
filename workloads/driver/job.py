"""One variant of a trial, as it is measured in the call of a script."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import tensorflow as tf

from workloads.driver.call import Call
from workloads.driver.results import Results
from workloads.driver.timing import Meter
from workloads.protocol import EventWriter, Spec
from workloads.variants import BASELINE


def call_late(spec: Spec, longest_s: float, late: Callable[[], object]) -> None:
    """Call a function, from another thread, if this process still runs then; before it counts as stalled."""
    timer = threading.Timer(min(longest_s, spec.stall_s / 2 or longest_s), late)
    timer.daemon = True
    timer.start()


@dataclass(frozen=True, kw_only=True)
class Job:
    """One variant of a trial.

    Attributes:
        results: what the trial has measured so far.
        devices: TensorFlow's names of this process's devices.
        strategy: distribution strategy for several devices, else None.
        measured_call: the script's call that variants of the breakdown are made of.
        alike_by: by what its losses must be the baseline's, as in results.py; "" if they need not.
    """

    spec: Spec
    events: EventWriter
    meter: Meter
    results: Results
    devices: Sequence[str]
    strategy: tf.distribute.Strategy | None = None
    variant: str = BASELINE
    measured_call: Call | None = None
    alike_by: str = ""

    def of(self, variant: str, meter: Meter) -> Job:
        """Return this job with another variant."""
        return replace(self, variant=variant, meter=meter)

    @property
    def call(self) -> Call:
        """The script's call."""
        assert self.measured_call is not None  # variants of the breakdown are made of it
        return self.measured_call

    @property
    def gpu(self) -> bool:
        """Whether the devices are GPUs."""
        return self.spec.device == "gpu"

    def metric(self, name: str, value: float) -> None:
        """Write a metric of the variant."""
        self.events.metric(self.variant, name, value)
