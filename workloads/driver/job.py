"""One variant of a trial: its parameters, and state shared between variants."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import tensorflow as tf

from workloads.driver import tuning
from workloads.driver.storage import in_ram
from workloads.driver.timing import Meter
from workloads.driver.workload_file import Loaded, check_split
from workloads.protocol import BASELINE, EventWriter, Spec, Split, Stage, Workload


@dataclass
class Shared:
    """State that later variants reuse.

    Attributes:
        model, step: the baseline's model and compiled step (batch -> loss), built once for all variants of
            the step-time breakdown.
        batch: one batch of the pipeline in host memory.
        step_ns: variant -> step time in its windows.
        wait_share: share of the custom loop's time spent waiting for input; None before it has run.
        eager, callbacks: whether the baseline runs eagerly, and whether the workload has per-batch callbacks.
        arrays: the training arrays as tensors in host memory, because a pipeline made of arrays copies them.
    """

    model: Any = None
    step: Callable[[Any], Any] | None = None
    batch: Any = None
    step_ns: dict[str, float] = field(default_factory=dict)
    wait_share: float | None = None
    eager: bool = False
    callbacks: bool = False
    arrays: Any = None


@dataclass(frozen=True, kw_only=True)
class Job:
    """One variant of a trial.

    Attributes:
        devices: TensorFlow's names of this process's devices.
        strategy: distribution strategy for several devices or workers, else None.
        train, test: (x, y) arrays; None for workloads with their own pipeline.
        params: all parameters of the variant.
        meter: None until the variant runs.
    """

    loaded: Loaded
    spec: Spec
    events: EventWriter
    devices: Sequence[str]
    strategy: tf.distribute.Strategy | None = None
    train: Split | None = None
    test: Split | None = None
    shared: Shared = field(default_factory=Shared)
    variant: str = BASELINE
    params: Mapping[str, Any] = field(default_factory=dict)
    meter: Meter | None = None

    def of(self, variant: str) -> Job:
        """Return this job with a variant and its parameters."""
        return replace(self, variant=variant, params=tuning.variant_params(self.workload, self.spec, variant))

    @property
    def workload(self) -> Workload:
        """The workload's declaration."""
        return self.loaded.workload

    @property
    def replicas(self) -> int:
        """The number of devices that each process a batch, including those of other workers."""
        return len(self.devices) * max(1, self.spec.workers)

    @property
    def worker(self) -> int:
        """This container's worker index."""
        return self.strategy.cluster_resolver.task_id if self.spec.workers and self.strategy else 0

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

    def stages(self, batch: int = 0) -> Sequence[Stage]:
        """Return the workload's pipeline; `batch` overrides the batch size."""
        params = {**self.params, "batch_size": batch or self.params["batch_size"]}
        return self.loaded.dataset(params, self.data_dir())

    def data_dir(self) -> str:
        """Return the data folder, which is in memory for storage="ram"."""
        return in_ram(self.spec.data_dir) if self.params.get("storage") == "ram" else self.spec.data_dir

    def part(self, name: Literal["train", "test"]) -> Split | None:
        """Return a whole split of the data as arrays; None if the workload only provides batches."""
        mounted, in_memory = self.train if name == "train" else self.test, self.loaded.in_memory
        if mounted is not None or in_memory is None:
            return mounted
        return check_split(in_memory(self.params, self.data_dir(), name), "in_memory")

    def metric(self, name: str, value: float) -> None:
        """Write a metric of the variant."""
        self.events.metric(self.variant, name, value)
