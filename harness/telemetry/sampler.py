"""Sample a trial: one thread for everything quick, one for each source that has its own pace."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from harness.errors import StoreError
from harness.model.run import Gap
from harness.telemetry import Source, Target
from harness.telemetry.csvfile import TelemetryWriter
from harness.telemetry.gaps import ALL, GapBook

_JOIN_S = 5.0
# Ticks missed for longer than this are a gap in the record, not only a number.
_STALL_S = 1.0


class Clock:
    """The kernel's clocks."""

    def now_ns(self) -> int:
        """Return CLOCK_MONOTONIC in nanoseconds."""
        return time.monotonic_ns()

    def cpu_s(self) -> float:
        """Return the CPU time that this thread has used."""
        return time.thread_time()

    def wait_until(self, due_ns: int, stop: threading.Event) -> bool:
        """Sleep until `due_ns` or until `stop` is set; return whether it is set."""
        return stop.wait(max(0, due_ns - self.now_ns()) / 1e9)


@dataclass(slots=True)
class Sampling:
    """What sampling has found out about itself; filled in when it ends.

    Attributes:
        gaps: telemetry that is missing.
        cost: wall_s; ticks and missed_ticks of the quick sources' thread; cpu_s of all threads; and SOURCE.cpu_s
            and SOURCE.reads for each source.
    """

    gaps: tuple[Gap, ...] = ()
    cost: Mapping[str, float] = field(default_factory=dict)


class TickLoop:
    """Read some sources at `begin + k * interval` until told to stop.

    Instants that pass while a read is under way are counted as missed and never made up, so that a slow
    read does not shift those after it.

    Args:
        sources: read one after another in every tick.
        interval_s: between ticks.
        writer: takes the samples.
        clock: the time.
    """

    def __init__(
        self, sources: Sequence[Source], interval_s: float, writer: TelemetryWriter, clock: Clock
    ) -> None:
        self.sources = tuple(sources)
        self.books = {source.name: GapBook(source.name) for source in sources}
        self.ticks = self.missed = 0
        self.cpu_s = 0.0
        self.source_cpu_s = {source.name: 0.0 for source in sources}
        self.error: StoreError | None = None
        self._interval_ns = round(interval_s * 1e9)
        self._writer = writer
        self._clock = clock

    def run(self, target: Target, stop: threading.Event) -> None:
        """Start the sources, read them until `stop` is set and once more then, and stop them."""
        cpu_s = self._clock.cpu_s()
        try:
            for source in self.sources:
                with self._guarded(source):
                    self._writer.begin(source.name, source.start(target, partial(self._note, source.name)))
            self._loop(stop)
        except StoreError as error:
            self.error = error
        finally:
            for source in self.sources:
                with self._guarded(source):
                    source.stop()
            self.cpu_s = self._clock.cpu_s() - cpu_s

    def _loop(self, stop: threading.Event) -> None:
        begin_ns = self._clock.now_ns()
        tick = 0
        while not self._clock.wait_until(begin_ns + tick * self._interval_ns, stop):
            self._tick()
            after_ns = self._clock.now_ns()
            passed = max(tick, (after_ns - begin_ns) // self._interval_ns)
            self.missed += passed - tick
            late_s = (passed - tick) * self._interval_ns / 1e9
            if late_s >= _STALL_S:
                late_ns = begin_ns + (tick + 1) * self._interval_ns
                for book in self.books.values():
                    book.add(late_ns, after_ns, f"Sampling was delayed by {late_s:.1f} s.")
            tick = passed + 1
        # Counters then cover the trial to its end.
        self._tick()

    def _tick(self) -> None:
        for source in self.sources:
            cpu_s = self._clock.cpu_s()
            with self._guarded(source):
                samples = tuple(source.read())
                self._writer.write(source.name, samples)
                self.books[source.name].seen(samples)
            self.source_cpu_s[source.name] += self._clock.cpu_s() - cpu_s
        self.ticks += 1

    def close(self, now_ns: int) -> tuple[Gap, ...]:
        """End the gaps that are open and return all."""
        return tuple(gap for book in self.books.values() for gap in book.close(now_ns))

    @contextmanager
    def _guarded(self, source: Source) -> Iterator[None]:
        """Turn whatever a source raises into a gap: it never reaches the trial."""
        try:
            yield
        except StoreError:
            raise
        except Exception as error:
            self._note(source.name, ALL, ALL, f"{type(error).__name__}: {error}")

    def _note(self, source: str, device: str, metric: str, reason: str) -> None:
        self.books[source].note(self._clock.now_ns(), device, metric, reason)


@contextmanager
def sample(sources: Sequence[Source], target: Target, folder: Path, interval_s: float) -> Iterator[Sampling]:
    """Sample while the body runs, into the CSV files of `folder`; the Sampling is complete after it.

    Sources open what they need in their threads, so that nobody waits for them.

    Args:
        sources: what to read; names must differ.
        interval_s: for the sources that have no interval of their own; 0 for no sampling.

    Raises:
        StoreError: samples could not be written; not when the body raises something else.
    """
    sampling = Sampling()
    if not sources or interval_s <= 0:
        yield sampling
        return
    quick = [source for source in sources if source.interval_s is None]
    groups = [*([quick] if quick else []), *([source] for source in sources if source.interval_s is not None)]
    clock, stop = Clock(), threading.Event()
    with TelemetryWriter(folder) as writer:
        loops = [
            TickLoop(group, max(interval_s, group[0].interval_s or 0.0), writer, clock) for group in groups
        ]
        threads = [
            threading.Thread(
                target=loop.run, args=(target, stop), name=f"sample-{loop.sources[0].name}", daemon=True
            )
            for loop in loops
        ]
        began_ns = clock.now_ns()
        for thread in threads:
            thread.start()
        try:
            yield sampling
        finally:
            stop.set()
            end_ns = clock.now_ns()
            for loop, thread in zip(loops, threads, strict=True):
                thread.join(max(0.0, _JOIN_S - (clock.now_ns() - end_ns) / 1e9))
                if thread.is_alive():
                    for book in loop.books.values():
                        book.note(end_ns, ALL, ALL, f"A read did not return within {_JOIN_S:g} s.")
            gaps = (gap for loop in loops for gap in loop.close(clock.now_ns()))
            sampling.gaps = tuple(sorted(gaps, key=lambda gap: gap.start_ns))
            sampling.cost = _cost(loops, (end_ns - began_ns) / 1e9)
        for loop in loops:
            if loop.error is not None:
                raise loop.error


def _cost(loops: Sequence[TickLoop], wall_s: float) -> dict[str, float]:
    quick = [loop for loop in loops if loop.sources[0].interval_s is None]
    cost = {
        "wall_s": wall_s,
        "ticks": sum(loop.ticks for loop in quick),
        "missed_ticks": sum(loop.missed for loop in quick),
        "cpu_s": sum(loop.cpu_s for loop in loops),
    }
    for loop in loops:
        for name, cpu_s in loop.source_cpu_s.items():
            cost |= {f"{name}.cpu_s": cpu_s, f"{name}.reads": loop.ticks}
    return cost
