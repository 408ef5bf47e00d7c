"""Keeping of gaps: from the first failing read of a metric until a sample has it again."""

from __future__ import annotations

from collections.abc import Iterable

from harness.model.run import Gap, Sample

ALL = "*"


class GapBook:
    """The gaps of the sources that one thread reads.

    A gap of all metrics of a device ends with the device's next sample, one of a single metric with the
    next sample that has it; what never comes back stays open until `close`.
    """

    def __init__(self) -> None:
        self._open: dict[tuple[str, str, str], tuple[int, str]] = {}
        self._closed: list[Gap] = []

    def note(self, now_ns: int, source: str, device: str, metric: str, reason: str) -> None:
        """Open a gap, unless it is open already."""
        self._open.setdefault((source, device, metric), (now_ns, reason))

    def add(self, source: str, start_ns: int, end_ns: int, reason: str) -> None:
        """Add a gap of a whole source whose end is known."""
        gap = Gap(source=source, device=ALL, metric=ALL, start_ns=start_ns, end_ns=end_ns, reason=reason)
        self._closed.append(gap)

    def seen(self, samples: Iterable[Sample]) -> None:
        """End the gaps of everything that the samples hold."""
        if not self._open:
            return
        for sample in samples:
            for key in tuple(self._open):
                source, device, metric = key
                back = source == sample.source and (
                    device == ALL or (device == sample.device and (metric == ALL or metric in sample.values))
                )
                # A gap noted within the read that gave this sample is not over.
                if back and self._open[key][0] <= sample.t_ns:
                    self._end(key, sample.t_ns)

    def close(self, now_ns: int) -> tuple[Gap, ...]:
        """End all that is open and return every gap, in order of start."""
        for key in tuple(self._open):
            self._end(key, now_ns)
        return tuple(sorted(self._closed, key=lambda gap: (gap.start_ns, gap.source, gap.device, gap.metric)))

    def _end(self, key: tuple[str, str, str], end_ns: int) -> None:
        start_ns, reason = self._open.pop(key)
        source, device, metric = key
        self._closed.append(
            Gap(source=source, device=device, metric=metric, start_ns=start_ns, end_ns=end_ns, reason=reason)
        )
