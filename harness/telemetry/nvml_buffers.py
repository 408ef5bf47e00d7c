"""The sources "nvml_power" and "nvml_util": the driver's own sample buffers, drained now and then.

The driver samples on its own, several times as often as a harness would, and keeps some seconds: a call
that drains them gets a finer curve than many calls do. They hold a little over 2 s of power, and more than
10 s of utilisation.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pynvml

from harness.model.run import Sample
from harness.telemetry import GapSink, Target
from harness.telemetry.nvml_card import Card, Failed, Handle, open_cards
from harness.telemetry.nvml_fields import number
from harness.telemetry.nvml_session import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """One of the driver's buffers: NVML's number for it, the metric and scale of its values, and how often
    to drain it so that it never runs over."""

    source: str
    kind: int
    metric: str
    scale: float
    interval_s: float


POWER = Buffer(
    source="nvml_power",
    kind=pynvml.NVML_TOTAL_POWER_SAMPLES,
    metric="power_usage_w",
    scale=1e-3,
    interval_s=1.0,
)
UTILISATION = Buffer(
    source="nvml_util",
    kind=pynvml.NVML_GPU_UTILIZATION_SAMPLES,
    metric="gpu_util_pct",
    scale=1,
    interval_s=5.0,
)


class Drain:
    """What is new in a buffer of one GPU since the last call.

    Args:
        buffer: which.
        since_us: wall clock, microseconds since 1970 as the driver stamps its samples.
    """

    def __init__(self, buffer: Buffer, since_us: int) -> None:
        self.metrics: tuple[str, ...] = (buffer.metric,)
        self.new: list[tuple[int, float]] = []
        self._buffer = buffer
        self._since_us = since_us

    def read(self, handle: Handle, failed: Failed) -> Mapping[str, float]:
        """Put what is new into `new`, oldest first."""
        try:
            kind, samples = pynvml.nvmlDeviceGetSamples(handle, self._buffer.kind, self._since_us)
        except pynvml.NVMLError as error:
            # Nothing new since the last call.
            if error.value in (pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_NO_DATA):
                return {}
            raise
        found = sorted((each.timeStamp, number(kind, each.sampleValue)) for each in samples)
        for stamp_us, value in found:
            if stamp_us > self._since_us:
                self.new.append((stamp_us, value * self._buffer.scale))
                self._since_us = stamp_us
        return {}

    def drop(self, metric: str) -> None:
        """Do nothing: it fails as a whole."""

    def reset(self) -> None:
        """Do nothing: the stamps stay valid."""


class BufferSource:
    """One of the driver's buffers, for every GPU of the target.

    Args:
        buffer: POWER or UTILISATION.
        session: NVML, shared with the other sources.
        now_ns, wall_ns: the sampler's clock, and the one that the driver stamps with.
    """

    def __init__(
        self,
        buffer: Buffer,
        session: Session,
        now_ns: Callable[[], int] = time.monotonic_ns,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._buffer = buffer
        self._session = session
        self._now_ns = now_ns
        self._wall_ns = wall_ns
        self._cards: tuple[tuple[Card, Drain], ...] = ()

    @property
    def name(self) -> str:
        """The buffer's."""
        return self._buffer.source

    @property
    def interval_s(self) -> float | None:
        """The buffer's."""
        return self._buffer.interval_s

    def start(self, target: Target, gap: GapSink) -> Mapping[str, Sequence[str]]:
        """Skip what the buffers hold from before."""
        if not target.gpus:
            return {}
        drains: list[Drain] = []

        def readings(uuid: str) -> Sequence[Drain]:
            drains.append(Drain(self._buffer, self._wall_ns() // 1000))
            return drains[-1:]

        cards = open_cards(self.name, target, gap, self._session, readings)
        self._cards = tuple(zip(cards, drains, strict=True))
        return {card.device: card.metrics() for card in cards}

    def read(self) -> Iterable[Sample]:
        """Give every new sample, on the sampler's clock."""
        for card, drain in self._cards:
            card.read()
            # Anew each time: the wall clock is steered, and may be set.
            offset_ns = self._now_ns() - self._wall_ns()
            new, drain.new = drain.new, []
            for stamp_us, value in new:
                yield Sample(
                    t_ns=stamp_us * 1000 + offset_ns,
                    source=self.name,
                    device=card.device,
                    values={self._buffer.metric: value},
                )

    def stop(self) -> None:
        """Let go of NVML."""
        if self._cards:
            self._cards = ()
            self._session.close()
