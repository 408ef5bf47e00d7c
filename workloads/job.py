"""What all variants of one trial share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from workloads.loading import Loaded, Split, Stage
from workloads.protocol import EventWriter, Spec, Workload
from workloads.storage import in_ram


@dataclass
class Shared:
    """What variants leave for those after them.

    Attributes:
        model, step: baseline's model and its compiled step (batch -> loss), for all variants that only serve
            the breakdown: building and compiling it once is enough.
        batch: one batch of the pipeline, in host memory.
        step_ns: variant -> how long one of its steps took, in its windows.
        wait_share: of the bare loop's time, waiting for input; None before it ran.
        eager, callbacks: the baseline's model is run eagerly; callbacks of the workload run around every batch.
        arrays: the training arrays in host memory, as tensors: a pipeline made of arrays copies them.
    """

    model: Any = None
    step: Callable[[Any], Any] | None = None
    batch: Any = None
    step_ns: dict[str, float] = field(default_factory=dict)
    wait_share: float | None = None
    eager: bool = False
    callbacks: bool = False
    arrays: Any = None


@dataclass(frozen=True)
class Job:
    """One trial.

    Attributes:
        loaded: the workload's file.
        devices: TensorFlow's names of the devices in use here.
        strategy: for several devices or workers, else None.
        train, test: (x, y) arrays; None for workloads with a pipeline of their own.
    """

    loaded: Loaded
    spec: Spec
    events: EventWriter
    devices: Sequence[str]
    strategy: tf.distribute.Strategy | None
    train: Split | None
    test: Split | None
    shared: Shared = field(default_factory=Shared)

    @property
    def replicas(self) -> int:
        """How many devices take a batch each, those of other workers included."""
        return len(self.devices) * max(1, self.spec.workers)

    @property
    def worker(self) -> int:
        """This container's place among those that train together, from 0."""
        return self.strategy.cluster_resolver.task_id if self.spec.workers and self.strategy else 0

    @property
    def workload(self) -> Workload:
        """The workload's declaration."""
        return self.loaded.workload

    @property
    def gpu(self) -> bool:
        """Whether the devices are GPUs."""
        return self.spec.device == "gpu"

    def arrays(self) -> Any:
        """Return the training arrays as tensors in host memory; None for workloads with a pipeline."""
        if self.shared.arrays is None and self.train is not None:
            with tf.device("CPU:0"):
                self.shared.arrays = tuple(tf.convert_to_tensor(part) for part in self.train)
        return self.shared.arrays

    def stages(self, params: Mapping[str, Any]) -> Sequence[Stage]:
        """Return the workload's own pipeline as `params` ask for it."""
        if self.loaded.dataset is None:
            raise TypeError(f"{self.workload.name} trains on arrays, it has no stages.")
        return self.loaded.dataset(params, self.data_dir(params))

    def data_dir(self, params: Mapping[str, Any]) -> str:
        """Return where the data lies: on disk, or in memory for storage="ram"."""
        return in_ram(self.spec.data_dir) if params.get("storage") == "ram" else self.spec.data_dir

    def resident(self, params: Mapping[str, Any]) -> Split | None:
        """Return the training data as arrays; None where the workload has none, only batches."""
        return self.train if self.train is not None else self._part(params, "train")

    def held_out(self, params: Mapping[str, Any]) -> Split | None:
        """Return the held-out data as arrays, None where the workload has none."""
        return self.test if self.test is not None else self._part(params, "test")

    def _part(self, params: Mapping[str, Any], part: str) -> Split | None:
        if self.loaded.in_memory is None:
            return None
        return self.loaded.in_memory(params, self.data_dir(params), part)
