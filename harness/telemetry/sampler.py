"""Sample a trial: one thread for fast sources, and one per source with its own interval."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from harness.errors import StoreError
from harness.model.run import TelemetryGap
from harness.telemetry import Sample, Source, Target
from harness.telemetry.container import CgroupSource, ProcessSource
from harness.telemetry.csvfile import TelemetryWriter
from harness.telemetry.host import FrequencySource, HostSource, RaplSource
from harness.telemetry.nvml import GpmSource, NvmlSlowSource, NvmlSource, UtilisationSource

ALL = "*"
_JOIN_S = 5.0
# The inverse of a tiny rate is infinite.
_LONGEST_INTERVAL_S = 86_400.0


class GapTracker:
    """Open and closed gaps of one source.

    A gap ends with the next sample that has the metric, or any sample of the device if all its metrics were
    missing.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._open: dict[tuple[str, str], tuple[int, str]] = {}
        self._closed: list[TelemetryGap] = []

    def open(self, now_ns: int, device: str, metric: str, reason: str) -> None:
        """Open a gap unless it is already open."""
        self._open.setdefault((device, metric), (now_ns, reason))

    def add(self, start_ns: int, end_ns: int, reason: str, device: str = ALL, metric: str = ALL) -> None:
        """Add a closed gap."""
        self._closed.append(
            TelemetryGap(
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
        if not self._open:
            return
        for sample in samples:
            for (device, metric), (start_ns, _) in tuple(self._open.items()):
                ended = device == ALL or (device == sample.device and metric in (ALL, *sample.values))
                # A gap that was opened while this sample was read stays open.
                if ended and start_ns <= sample.t_ns:
                    self._close(device, metric, sample.t_ns)

    def close(self, now_ns: int) -> tuple[TelemetryGap, ...]:
        """Close all open gaps and return every gap."""
        for device, metric in tuple(self._open):
            self._close(device, metric, now_ns)
        return tuple(self._closed)

    def _close(self, device: str, metric: str, end_ns: int) -> None:
        start_ns, reason = self._open.pop((device, metric))
        self.add(start_ns, end_ns, reason, device, metric)


class Clock:
    """The system's clocks."""

    def now_ns(self) -> int:
        """Return CLOCK_MONOTONIC in nanoseconds."""
        return time.monotonic_ns()

    def cpu_s(self) -> float:
        """Return this thread's CPU time."""
        return time.thread_time()

    def wait_until(self, due_ns: int, stop: threading.Event) -> bool:
        """Sleep until `due_ns` or until `stop` is set; return whether `stop` is set."""
        return stop.wait(max(0, due_ns - self.now_ns()) / 1e9)


@dataclass(slots=True)
class Sampling:
    """The result of sampling, filled in when it ends.

    Attributes:
        cost: wall_s; ticks, missed_ticks of the fast sources; cpu_s of all; SOURCE.cpu_s and SOURCE.reads.
    """

    gaps: tuple[TelemetryGap, ...] = ()
    cost: Mapping[str, float] = field(default_factory=dict)


class TickLoop:
    """Read sources one after another at `begin + k * interval`.

    Ticks that pass during a read are counted as missed; a slow read does not shift later ticks.
    """

    def __init__(
        self, sources: Sequence[Source], interval_s: float, writer: TelemetryWriter, clock: Clock
    ) -> None:
        self.sources = tuple(sources)
        self.gaps = {source.name: GapTracker(source.name) for source in sources}
        self.ticks = self.missed = 0
        self.cpu_s = 0.0
        self.source_cpu_s = {source.name: 0.0 for source in sources}
        self.error: StoreError | None = None
        self._interval_ns = round(interval_s * 1e9)
        self._writer = writer
        self._clock = clock

    def run(self, target: Target, stop: threading.Event) -> None:
        """Start the sources, read them until `stop` is set, read once more, and stop them."""
        cpu_s = self._clock.cpu_s()
        try:
            for source in self.sources:
                with self._guarded(source):
                    self._writer.begin(
                        source.name, source.start(target, partial(self._open_gap, source.name))
                    )
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
            last_due = max(tick, (after_ns - begin_ns) // self._interval_ns)
            self.missed += last_due - tick
            delay_s = (last_due - tick) * self._interval_ns / 1e9
            if delay_s >= 1.0:
                missed_ns = begin_ns + (tick + 1) * self._interval_ns
                for tracker in self.gaps.values():
                    tracker.add(missed_ns, after_ns, f"Sampling was delayed by {delay_s:.1f} s.")
            tick = last_due + 1
        # A final read, so that counters cover the whole trial.
        self._tick()

    def _tick(self) -> None:
        for source in self.sources:
            cpu_s = self._clock.cpu_s()
            with self._guarded(source):
                samples = tuple(source.read())
                self._writer.write(source.name, samples)
                self.gaps[source.name].update(samples)
            self.source_cpu_s[source.name] += self._clock.cpu_s() - cpu_s
        self.ticks += 1

    def close(self, now_ns: int) -> tuple[TelemetryGap, ...]:
        """Close all open gaps and return every gap."""
        return tuple(gap for tracker in self.gaps.values() for gap in tracker.close(now_ns))

    @contextmanager
    def _guarded(self, source: Source) -> Iterator[None]:
        """Turn a source's errors into gaps."""
        try:
            yield
        except StoreError:
            raise
        except Exception as error:
            self._open_gap(source.name, ALL, ALL, f"{type(error).__name__}: {error}")

    def _open_gap(self, source: str, device: str, metric: str, reason: str) -> None:
        self.gaps[source].open(self._clock.now_ns(), device, metric, reason)


@contextmanager
def sample(sources: Sequence[Source], target: Target, folder: Path, rate_hz: float) -> Iterator[Sampling]:
    """Write samples to CSV files in `folder` while the body runs; the Sampling is complete afterwards.

    Args:
        rate_hz: samples per second of sources without an interval of their own; 0 disables sampling.

    Raises:
        StoreError: samples could not be written, and the body did not raise.
    """
    sampling = Sampling()
    if not sources or rate_hz <= 0:
        yield sampling
        return
    interval_s = min(1 / rate_hz, _LONGEST_INTERVAL_S)
    fast = [source for source in sources if source.interval_s is None]
    groups = [[source] for source in sources if source.interval_s is not None]
    if fast:
        groups.insert(0, fast)
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
        try:
            for thread in threads:
                thread.start()
            yield sampling
        finally:
            stop.set()
            end_ns = clock.now_ns()
            started = [each for each in zip(loops, threads, strict=True) if each[1].ident is not None]
            for loop, thread in started:
                thread.join(max(0.0, _JOIN_S - (clock.now_ns() - end_ns) / 1e9))
                if thread.is_alive():
                    for tracker in loop.gaps.values():
                        tracker.open(end_ns, ALL, ALL, f"A read did not return within {_JOIN_S:g} s.")
            gaps = (gap for loop in loops for gap in loop.close(clock.now_ns()))
            sampling.gaps = tuple(sorted(gaps, key=lambda gap: gap.start_ns))
            sampling.cost = _cost(loops, (end_ns - began_ns) / 1e9)
        for loop in loops:
            if loop.error is not None:
                raise loop.error


def _cost(loops: Sequence[TickLoop], wall_s: float) -> dict[str, float]:
    fast = [loop for loop in loops if loop.sources[0].interval_s is None]
    cost = {
        "wall_s": wall_s,
        "ticks": sum(loop.ticks for loop in fast),
        "missed_ticks": sum(loop.missed for loop in fast),
        "cpu_s": sum(loop.cpu_s for loop in loops),
    }
    for loop in loops:
        for name, cpu_s in loop.source_cpu_s.items():
            cost |= {f"{name}.cpu_s": cpu_s, f"{name}.reads": loop.ticks}
    return cost


def default_sources() -> tuple[Source, ...]:
    """Return new sources for a trial, in reading order."""
    return (
        HostSource(),
        CgroupSource(),
        ProcessSource(),
        NvmlSource(),
        RaplSource(),
        GpmSource(),
        UtilisationSource(),
        NvmlSlowSource(),
        FrequencySource(),
    )
