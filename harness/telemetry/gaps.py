"""Track gaps: from the first failed read of a metric until a sample has it again."""

from __future__ import annotations

from collections.abc import Iterable

from harness.model.run import Gap
from harness.telemetry import Sample

ALL = "*"
# Delays of at least this are gaps, in seconds.
MIN_DELAY_S = 1.0


class GapTracker:
    """Open and closed gaps of one source.

    A gap ends with the next sample that has the metric, or any sample of the device if all its metrics were
    missing.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._open: dict[tuple[str, str], tuple[int, str]] = {}
        self._closed: list[Gap] = []

    def open(self, now_ns: int, device: str, metric: str, reason: str) -> None:
        """Open a gap unless it is already open."""
        self._open.setdefault((device, metric), (now_ns, reason))

    def add(self, start_ns: int, end_ns: int, reason: str, device: str = ALL, metric: str = ALL) -> None:
        """Add a closed gap."""
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

    def update(self, samples: Iterable[Sample]) -> None:
        """Close the gaps of the metrics that the samples have."""
        for sample in samples if self._open else ():
            for (device, metric), (start_ns, _) in tuple(self._open.items()):
                ended = device == ALL or (device == sample.device and metric in (ALL, *sample.values))
                # A gap that was opened while this sample was read stays open.
                if ended and start_ns <= sample.t_ns:
                    self._close(device, metric, sample.t_ns)

    def close(self, now_ns: int) -> tuple[Gap, ...]:
        """Close all open gaps and return every gap."""
        for device, metric in tuple(self._open):
            self._close(device, metric, now_ns)
        return tuple(self._closed)

    def _close(self, device: str, metric: str, end_ns: int) -> None:
        start_ns, reason = self._open.pop((device, metric))
        self.add(start_ns, end_ns, reason, device, metric)
