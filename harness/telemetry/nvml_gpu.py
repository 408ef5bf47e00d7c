"""One GPU as a source follows it: its handle, its readings, and what happens when they fail."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pynvml

from harness.model.run import Sample
from harness.telemetry import GapSink, Target
from harness.telemetry.nvml_errors import Meaning, UnreadableError, explain, meaning

Handle = Any  # a ctypes pointer of pynvml's
Failed = Callable[[str, int], None]


class Reading:
    """One NVML call, or a few that belong together, and the metrics that come of it."""

    @property
    def metrics(self) -> Sequence[str]:
        """What `read` can give."""
        raise NotImplementedError

    def read(self, handle: Handle, failed: Failed) -> Mapping[str, float]:
        """Call NVML; a metric that fails by itself goes to `failed` with NVML's code.

        Raises:
            NVMLError: all of it failed.
            UnreadableError: it cannot work on this host.
        """
        raise NotImplementedError

    def drop(self, metric: str) -> None:
        """Ask for `metric` no more; a reading that fails as a whole is dropped by its GPU."""

    def reset(self) -> None:
        """Forget what belongs to an earlier handle."""


class Call(Reading):
    """A call that gives all of its metrics or none.

    Args:
        metrics: names, in the order of the call's results.
        functions: tried in order until the driver has one; newer ones first.
    """

    def __init__(self, metrics: Sequence[str], *functions: Callable[[Handle], Sequence[float]]) -> None:
        self._metrics = tuple(metrics)
        self._functions = functions

    @property
    def metrics(self) -> Sequence[str]:
        """The metrics."""
        return self._metrics

    def read(self, handle: Handle, failed: Failed) -> Mapping[str, float]:
        """Call the first function that works, and only that one from then on."""
        while True:
            try:
                return dict(zip(self._metrics, self._functions[0](handle), strict=True))
            except pynvml.NVMLError as error:
                if len(self._functions) == 1 or meaning(error.value) is not Meaning.METRIC:
                    raise
                self._functions = self._functions[1:]


class WatchedGpu:
    """A GPU under one name, and the readings that it turns out to support.

    Args:
        source: name of the source, for its gaps and samples.
        device: the trial's name for the GPU ("gpu0").
        uuid: the GPU's, or a MIG instance's.
    """

    def __init__(
        self,
        *,
        source: str,
        device: str,
        uuid: str,
        readings: Sequence[Reading],
        gap: GapSink,
    ) -> None:
        self.device = device
        self.uuid = uuid
        self.readings = list(readings)
        self._source = source
        self._dropped: set[str] = set()
        self._gap = gap
        self._handle: Handle = None

    def metrics(self) -> Sequence[str]:
        """Return what samples may hold: all that has not turned out to be unsupported."""
        names = (metric for reading in self.readings for metric in reading.metrics)
        return tuple(metric for metric in names if metric not in self._dropped)

    def read(self) -> Mapping[str, float]:
        """Read all that the GPU supports; nothing, and a gap, while it is lost."""
        values: dict[str, float] = {}
        try:
            if self._handle is None:
                self._handle = pynvml.nvmlDeviceGetHandleByUUID(self.uuid)
            for reading in tuple(self.readings):
                values |= self._values_of(reading)
        except pynvml.NVMLError as error:
            self._gap(self._source, self.device, "*", explain(error.value, self.uuid))
            self._handle = None
            self.reset()
            return {}
        return values

    def reset(self) -> None:
        """Have every reading forget what belongs to an earlier handle."""
        for reading in self.readings:
            reading.reset()

    def _values_of(self, reading: Reading) -> Mapping[str, float]:
        """Take a reading; errors that concern the GPU as a whole are raised."""

        def failed(metric: str, code: int) -> None:
            kind = meaning(code)
            if kind is Meaning.DEVICE:
                raise pynvml.NVMLError(code)
            self._gap(self._source, self.device, metric, explain(code, self.uuid))
            if kind is Meaning.METRIC:
                self._dropped.add(metric)
                reading.drop(metric)

        try:
            return reading.read(self._handle, failed)
        except UnreadableError as error:
            for metric in reading.metrics:
                self._gap(self._source, self.device, metric, str(error))
                self._dropped.add(metric)
            self.readings.remove(reading)
            return {}
        except pynvml.NVMLError as error:
            for metric in reading.metrics:
                failed(metric, error.value)
            if meaning(error.value) is Meaning.METRIC:
                self.readings.remove(reading)
            return {}


class GpuSource:
    """A source that reads every GPU of the target; subclasses name it and its readings.

    Each source initialises NVML for itself: NVML counts, and shuts down with the last.

    Args:
        now_ns: the clock.
    """

    name: str
    interval_s: float | None = None

    def __init__(self, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._now_ns = now_ns
        self._gpus: tuple[WatchedGpu, ...] = ()

    def readings(self, uuid: str, target: Target) -> Sequence[Reading]:
        """Return the readings of one GPU."""
        raise NotImplementedError

    def start(self, target: Target, gap: GapSink) -> Mapping[str, Sequence[str]]:
        """Open the target's GPUs and read each once: that finds what is not supported, and warms NVML up."""
        if not target.gpus:
            return {}
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            for device in target.gpus:
                gap(self.name, device, "*", explain(error.value))
            return {}
        self._gpus = tuple(
            WatchedGpu(
                source=self.name,
                device=device,
                uuid=uuid,
                readings=self.readings(uuid, target),
                gap=gap,
            )
            for device, uuid in target.gpus.items()
        )
        for gpu in self._gpus:
            gpu.read()
        return {gpu.device: gpu.metrics() for gpu in self._gpus}

    def read(self) -> Iterable[Sample]:
        """Read each GPU, stamped at its own instant; GPUs that give nothing are left out."""
        for gpu in self._gpus:
            t_ns = self._now_ns()
            values = gpu.read()
            if values:
                yield Sample(t_ns=t_ns, source=self.name, device=gpu.device, values=values)

    def stop(self) -> None:
        """Release NVML."""
        if self._gpus:
            for gpu in self._gpus:
                gpu.reset()
            self._gpus = ()
            with suppress(pynvml.NVMLError):
                pynvml.nvmlShutdown()
