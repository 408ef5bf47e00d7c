"""One thread's schedule: sources read at fixed instants, and what the reading itself cost."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from harness.errors import StoreError
from harness.model.run import Sample
from harness.telemetry import Source, Target
from harness.telemetry.gaps import ALL, GapBook

# Ticks missed for longer than this are a gap in the record, not only a number.
_STALL_S = 1.0


class Clock(Protocol):
    """Where time comes from; tests bring their own."""

    def now_ns(self) -> int:
        """Return CLOCK_MONOTONIC in nanoseconds."""
        ...

    def cpu_s(self) -> float:
        """Return the CPU time that this thread has used."""
        ...

    def wait_until(self, due_ns: int, stop: threading.Event) -> bool:
        """Sleep until `due_ns` or until `stop` is set; return whether it is set."""
        ...


class MonotonicClock:
    """The kernel's clocks."""

    def now_ns(self) -> int:
        """Return CLOCK_MONOTONIC."""
        return time.monotonic_ns()

    def cpu_s(self) -> float:
        """Return CLOCK_THREAD_CPUTIME_ID."""
        return time.thread_time()

    def wait_until(self, due_ns: int, stop: threading.Event) -> bool:
        """Wait on the event with what is left as its timeout."""
        return stop.wait(max(0, due_ns - time.monotonic_ns()) / 1e9)


class Sink(Protocol):
    """Where samples go."""

    def begin(self, source: str, columns: Mapping[str, Sequence[str]]) -> None:
        """Take note of the devices and metrics that a source will give."""
        ...

    def write(self, samples: Iterable[Sample]) -> None:
        """Take samples."""
        ...


@dataclass(slots=True, kw_only=True)
class Cost:
    """What one source cost: CPU seconds, reads, and the longest read in seconds of the wall clock."""

    cpu_s: float = 0.0
    reads: int = 0
    longest_s: float = 0.0


class TickLoop:
    """Read some sources at `begin + k * interval` until told to stop.

    Instants that pass while a read is under way are counted as missed and never made up, so that a slow
    read does not shift those after it.

    Args:
        sources: read one after another in every tick.
        interval_s: between ticks.
        sink: takes the samples.
        clock: the time.
    """

    def __init__(self, sources: Sequence[Source], interval_s: float, sink: Sink, clock: Clock) -> None:
        self.sources = tuple(sources)
        self.interval_s = interval_s
        self.gaps = GapBook()
        self.costs = {source.name: Cost() for source in sources}
        self.ticks = self.missed = 0
        self.cpu_s = self.longest_s = 0.0
        self.error: StoreError | None = None
        self._sink = sink
        self._clock = clock

    def run(self, target: Target, stop: threading.Event) -> None:
        """Start the sources, read them until `stop` is set and once more then, and stop them."""
        cpu_s = self._clock.cpu_s()
        try:
            for source in self.sources:
                self._start(source, target)
            self._loop(stop)
        except StoreError as error:
            self.error = error
        finally:
            for source in self.sources:
                self._guard(source, source.stop)
            self.cpu_s = self._clock.cpu_s() - cpu_s

    def _loop(self, stop: threading.Event) -> None:
        interval_ns = round(self.interval_s * 1e9)
        begin_ns = self._clock.now_ns()
        tick = 0
        while not self._clock.wait_until(begin_ns + tick * interval_ns, stop):
            self._tick()
            after_ns = self._clock.now_ns()
            passed = max(tick, (after_ns - begin_ns) // interval_ns)
            self.missed += passed - tick
            if (passed - tick) * self.interval_s >= _STALL_S:
                for source in self.sources:
                    self.gaps.add(
                        source.name,
                        begin_ns + (tick + 1) * interval_ns,
                        after_ns,
                        f"Sampling was delayed by {(passed - tick) * self.interval_s:.1f} s.",
                    )
            tick = passed + 1
        # Counters then cover the trial to its end.
        self._tick()

    def _tick(self) -> None:
        begin_ns = self._clock.now_ns()
        for source in self.sources:
            self._read(source)
        self.ticks += 1
        self.longest_s = max(self.longest_s, (self._clock.now_ns() - begin_ns) / 1e9)

    def _start(self, source: Source, target: Target) -> None:
        def begin() -> None:
            self._sink.begin(source.name, source.start(target, self._note))

        self._guard(source, begin)

    def _read(self, source: Source) -> None:
        cost = self.costs[source.name]
        cpu_s, begin_ns = self._clock.cpu_s(), self._clock.now_ns()

        def read() -> None:
            samples = tuple(source.read())
            self._sink.write(samples)
            self.gaps.seen(samples)

        self._guard(source, read)
        cost.cpu_s += self._clock.cpu_s() - cpu_s
        cost.reads += 1
        cost.longest_s = max(cost.longest_s, (self._clock.now_ns() - begin_ns) / 1e9)

    def _guard(self, source: Source, action: _Action) -> None:
        """Run `action`; whatever a source raises ends here, as a gap, and never reaches the trial."""
        try:
            action()
        except StoreError:
            raise
        except Exception as error:
            self._note(source.name, ALL, ALL, f"{type(error).__name__}: {error}")

    def _note(self, source: str, device: str, metric: str, reason: str) -> None:
        self.gaps.note(self._clock.now_ns(), source, device, metric, reason)


class _Action(Protocol):
    def __call__(self) -> None: ...
