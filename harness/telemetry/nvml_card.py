"""One GPU as a source follows it: its handle, its readings, and what happens when they fail."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import pynvml

from harness.model.run import Sample
from harness.telemetry import GapSink, Target
from harness.telemetry.nvml_errors import Meaning, UnreadableError, explain, meaning
from harness.telemetry.nvml_session import Session

Handle = Any  # a ctypes pointer of pynvml's
Failed = Callable[[str, int], None]


class Reading(Protocol):
    """One NVML call, or a few that belong together, and the metrics that come of it."""

    @property
    def metrics(self) -> Sequence[str]:
        """What `read` can give."""
        ...

    def read(self, handle: Handle, failed: Failed) -> Mapping[str, float]:
        """Call NVML; a metric that fails by itself goes to `failed` with NVML's code.

        Raises:
            NVMLError: all of it failed.
            UnreadableError: it cannot work on this host.
        """
        ...

    def drop(self, metric: str) -> None:
        """Ask for `metric` no more."""
        ...

    def reset(self) -> None:
        """Forget what belongs to an earlier handle."""
        ...


class Call:
    """A call that gives all of its metrics or none.

    Args:
        metrics: names, in the order of the call's results.
        functions: tried in order until the driver has one; newer ones first.
    """

    def __init__(self, metrics: Sequence[str], *functions: Callable[[Handle], Sequence[float]]) -> None:
        self.metrics: tuple[str, ...] = tuple(metrics)
        self._functions = functions

    def read(self, handle: Handle, failed: Failed) -> Mapping[str, float]:
        """Call the first function that works, and only that one from then on."""
        while True:
            try:
                return dict(zip(self.metrics, self._functions[0](handle), strict=True))
            except pynvml.NVMLError as error:
                if len(self._functions) == 1 or meaning(error.value) is not Meaning.METRIC:
                    raise
                self._functions = self._functions[1:]

    def drop(self, metric: str) -> None:
        """Do nothing: a call that fails for good fails as a whole and is not made again."""

    def reset(self) -> None:
        """Do nothing: there is no state."""


class Card:
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
        session: Session,
        gap: GapSink,
    ) -> None:
        self.device = device
        self.uuid = uuid
        self._source = source
        self._readings = list(readings)
        self._dropped: set[str] = set()
        self._session = session
        self._gap = gap
        self._generation = -1
        self._handle: Handle = None

    def metrics(self) -> Sequence[str]:
        """Return what samples may hold: all that has not been found unsupported."""
        found = (metric for reading in self._readings for metric in reading.metrics)
        return tuple(metric for metric in found if metric not in self._dropped)

    def read(self) -> Mapping[str, float]:
        """Read all that the GPU supports; nothing, and a gap, while it is lost."""
        values: dict[str, float] = {}
        generation = self._session.generation
        try:
            with self._session.call() as generation:
                if generation != self._generation:
                    self._handle = pynvml.nvmlDeviceGetHandleByUUID(self.uuid)
                    for reading in self._readings:
                        reading.reset()
                    self._generation = generation
                for reading in tuple(self._readings):
                    values |= self._one(reading)
        except pynvml.NVMLError as error:
            self._gap(self._source, self.device, "*", explain(error.value, self.uuid))
            self._generation = -1
            self._session.renew(generation)
            return {}
        return values

    def _one(self, reading: Reading) -> Mapping[str, float]:
        """Read one; errors that concern the GPU as a whole are raised."""

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
            self._readings.remove(reading)
            return {}
        except pynvml.NVMLError as error:
            for metric in reading.metrics:
                failed(metric, error.value)
            if meaning(error.value) is Meaning.METRIC:
                self._readings.remove(reading)
            return {}


def open_cards(
    source: str,
    target: Target,
    gap: GapSink,
    session: Session,
    readings: Callable[[str], Sequence[Reading]],
) -> tuple[Card, ...]:
    """Make a GPU for each of the target's GPUs, with `readings(uuid)`, and read it once.

    That first reading finds what is not supported, and bears the cost of NVML's first calls.
    """
    session.open()
    cards = tuple(
        Card(source=source, device=device, uuid=uuid, readings=readings(uuid), session=session, gap=gap)
        for device, uuid in target.gpus.items()
    )
    for card in cards:
        card.read()
    return cards


def read_cards(source: str, cards: Sequence[Card], now_ns: Callable[[], int]) -> tuple[Sample, ...]:
    """Read each GPU, stamped at its own instant; GPUs that give nothing are left out."""
    samples = []
    for card in cards:
        t_ns = now_ns()
        values = card.read()
        if values:
            samples.append(Sample(t_ns=t_ns, source=source, device=card.device, values=values))
    return tuple(samples)
