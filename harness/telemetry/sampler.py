"""Sample a trial: one thread for everything quick, one for each source that has its own pace."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from harness.errors import StoreError
from harness.model.run import Gap
from harness.telemetry import Source, Target
from harness.telemetry.csvfile import TelemetryWriter
from harness.telemetry.gaps import ALL
from harness.telemetry.ticks import Clock, MonotonicClock, Sink, TickLoop

_JOIN_S = 5.0


@dataclass(slots=True)
class Sampling:
    """What sampling has found out about itself; filled in when it ends.

    Attributes:
        gaps: telemetry that is missing.
        cost: interval_s; wall_s; ticks, missed_ticks and longest_tick_s of the quick sources' thread;
            cpu_s and cpu_pct (of one CPU) of all threads; and SOURCE.cpu_s, SOURCE.reads,
            SOURCE.longest_s for each source.
    """

    gaps: tuple[Gap, ...] = ()
    cost: Mapping[str, float] = field(default_factory=dict)


class Sampler:
    """Read sources in threads, on absolute schedules.

    Args:
        sources: what to read; names must differ.
        interval_s: for the sources that have no interval of their own.
        sink: takes the samples.
        clock: the time.
    """

    def __init__(
        self, sources: Sequence[Source], interval_s: float, sink: Sink, clock: Clock | None = None
    ) -> None:
        self._sources = tuple(sources)
        self._interval_s = interval_s
        self._sink = sink
        self._clock = clock or MonotonicClock()
        self._stop = threading.Event()
        self._loops: tuple[TickLoop, ...] = ()
        self._threads: tuple[threading.Thread, ...] = ()
        self._began_ns = 0

    def start(self, target: Target) -> None:
        """Begin at once; sources open what they need in their threads, so that nobody waits for them."""
        self._began_ns = self._clock.now_ns()
        quick = [source for source in self._sources if source.interval_s is None]
        paced = [source for source in self._sources if source.interval_s is not None]
        groups = [(quick, self._interval_s)]
        groups += [([source], max(self._interval_s, source.interval_s or 0.0)) for source in paced]
        self._loops = tuple(TickLoop(group, pace, self._sink, self._clock) for group, pace in groups if group)
        self._threads = tuple(
            threading.Thread(
                target=loop.run, args=(target, self._stop), name=f"sample-{loop.sources[0].name}", daemon=True
            )
            for loop in self._loops
        )
        for thread in self._threads:
            thread.start()

    def stop(self) -> Sampling:
        """Take a last reading, end the threads and return gaps and cost.

        Raises:
            StoreError: samples could not be written.
        """
        self._stop.set()
        end_ns = self._clock.now_ns()
        for thread in self._threads:
            thread.join(max(0.0, _JOIN_S - (self._clock.now_ns() - end_ns) / 1e9))
        gaps: list[Gap] = []
        for loop, thread in zip(self._loops, self._threads, strict=True):
            if thread.is_alive():
                for source in loop.sources:
                    loop.gaps.note(
                        end_ns, source.name, ALL, ALL, f"A read did not return within {_JOIN_S:g} s."
                    )
            gaps += loop.gaps.close(self._clock.now_ns())
        for loop in self._loops:
            if loop.error is not None:
                raise StoreError(loop.error.message, hint=loop.error.hint) from loop.error
        return Sampling(gaps=tuple(sorted(gaps, key=lambda gap: gap.start_ns)), cost=self._cost(end_ns))

    def _cost(self, end_ns: int) -> dict[str, float]:
        wall_s = (end_ns - self._began_ns) / 1e9
        cpu_s = sum(loop.cpu_s for loop in self._loops)
        quick = [loop for loop in self._loops if loop.sources[0].interval_s is None]
        cost: dict[str, float] = {
            "interval_s": self._interval_s,
            "wall_s": wall_s,
            "ticks": sum(loop.ticks for loop in quick),
            "missed_ticks": sum(loop.missed for loop in quick),
            "longest_tick_s": max((loop.longest_s for loop in quick), default=0.0),
            "cpu_s": cpu_s,
            "cpu_pct": 100.0 * cpu_s / wall_s if wall_s > 0 else 0.0,
        }
        for loop in self._loops:
            for name, each in loop.costs.items():
                cost |= {f"{name}.cpu_s": each.cpu_s, f"{name}.reads": each.reads}
                cost[f"{name}.longest_s"] = each.longest_s
        return cost


@contextmanager
def sample(sources: Sequence[Source], target: Target, folder: Path, interval_s: float) -> Iterator[Sampling]:
    """Sample while the body runs, into the CSV files of `folder`; the Sampling is complete after it.

    Raises:
        StoreError: samples could not be written; not when the body raises something else.
    """
    sampling = Sampling()
    if not sources or interval_s <= 0:
        yield sampling
        return
    with TelemetryWriter(folder) as writer:
        sampler = Sampler(sources, interval_s, writer)
        sampler.start(target)
        try:
            yield sampling
        except BaseException:
            # What the body raised says more about why the trial ended.
            with suppress(StoreError):
                _finish(sampler, sampling)
            raise
        _finish(sampler, sampling)


def _finish(sampler: Sampler, sampling: Sampling) -> None:
    done = sampler.stop()
    sampling.gaps, sampling.cost = done.gaps, done.cost
