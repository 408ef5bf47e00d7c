"""Gaps: from the first failing read of a metric until a sample has it again."""

from __future__ import annotations

from collections.abc import Iterable

from harness.model.run import Gap
from harness.telemetry import Sample

ALL = "*"


class GapBook:
    """The gaps of one source.

    A gap ends with the next sample that has the metric, or any sample of the device if all its metrics were
    missing.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._open: dict[tuple[str, str], tuple[int, str]] = {}
        self._closed: list[Gap] = []

    def note(self, now_ns: int, device: str, metric: str, reason: str) -> None:
        """Open a gap unless it is open already."""
        self._open.setdefault((device, metric), (now_ns, reason))

    def add(self, start_ns: int, end_ns: int, reason: str, device: str = ALL, metric: str = ALL) -> None:
        """Add a gap that has ended."""
        self._closed.append(
            Gap(
                source=self._source,
                device=device,
                metric=metric,
                start_ns=start_ns,
                end_ns=end_ns,
                reason=reason,
            )
        )

    def seen(self, samples: Iterable[Sample]) -> None:
        """End the gaps of what is in the samples."""
        for sample in samples if self._open else ():
            for (device, metric), (start_ns, _) in tuple(self._open.items()):
                back = device == ALL or (device == sample.device and metric in (ALL, *sample.values))
                # A gap that began in the sample's own read goes on.
                if back and start_ns <= sample.t_ns:
                    self._end(device, metric, sample.t_ns)

    def close(self, now_ns: int) -> tuple[Gap, ...]:
        """End open gaps and return all."""
        for device, metric in tuple(self._open):
            self._end(device, metric, now_ns)
        return tuple(self._closed)

    def _end(self, device: str, metric: str, end_ns: int) -> None:
        start_ns, reason = self._open.pop((device, metric))
        self.add(start_ns, end_ns, reason, device, metric)
