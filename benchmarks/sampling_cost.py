"""What each telemetry source, and each single NVML call, costs on this machine.

    python -m benchmarks.sampling_cost [--seconds 3] [--pid PID]

Prints Markdown as it goes: a row for each source, then one for each single call of NVML.

Reads are made at the sampler's interval with sleep between them, as in a real run: called back to back they
would find every cache warm and look several times cheaper. PID is a container's first process, for the
source "cgroup"; without it a child process is watched, which the source "process" does.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import pynvml

from benchmarks.tables import markdown
from harness.system.gpus import discover
from harness.telemetry import Source, Target
from harness.telemetry.gpm import GPM_METRICS, Gpm, GpmSource
from harness.telemetry.nvml import FAST, SLOW, NvmlSlowSource, fast_readings, slow_readings
from harness.telemetry.nvml_errors import UnreadableError
from harness.telemetry.nvml_gpu import Fields, Reading
from harness.telemetry.nvml_utilisation import Drain, UtilisationSource
from harness.telemetry.sources import default_sources

INTERVAL_S = 0.1
# Pauses beyond this make caches no colder.
LONGEST_PAUSE_S = 1.0
# A single call is made this often at most, and for no longer than this.
CALLS, PAUSE_S, CALL_LIMIT_S = 30, 0.03, 0.5
HEADS = ("what", "every, s", "median, us", "p99, us", "CPU, us", "CPU, % of a core", "n")
BUSY = "import time\nwhile time.process_time() < 600: time.sleep(0.01)"


@dataclass(frozen=True, slots=True)
class Timing:
    """Wall clock and CPU seconds of one thing, done again and again."""

    name: str
    period_s: float
    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    def add(self, action: Callable[[], object]) -> None:
        """Do it once more."""
        cpu_s, wall_s = time.thread_time(), time.perf_counter()
        action()
        self.wall_s.append(time.perf_counter() - wall_s)
        self.cpu_s.append(time.thread_time() - cpu_s)

    def row(self) -> tuple[str, ...]:
        """Give the cells of a table: microseconds, and CPU use in percent of one core."""
        if not self.wall_s:
            return (self.name, f"{self.period_s:g}", *[""] * 4, "0")
        median, p99 = np.percentile(self.wall_s, (50, 99)) * 1e6
        cpu = float(np.mean(self.cpu_s))
        return (
            self.name,
            f"{self.period_s:g}",
            f"{median:,.0f}",
            f"{p99:,.0f}",
            f"{cpu * 1e6:,.0f}",
            f"{100 * cpu / self.period_s:.3f}",
            str(len(self.wall_s)),
        )


def time_sources(sources: Sequence[Source], target: Target, seconds: float) -> Iterator[Timing]:
    """Read all sources at their own intervals, one after another so that none warms the caches for the next."""
    for source in sources:
        columns = source.start(target, lambda *gap: None)
        timing = Timing(source.name, max(INTERVAL_S, source.interval_s or 0.0))
        pause_s = min(timing.period_s, LONGEST_PAUSE_S)
        for _ in range(max(3, round(seconds / pause_s)) if any(columns.values()) else 0):
            time.sleep(pause_s)
            timing.add(lambda source=source: tuple(source.read()))  # type: ignore[misc]
        source.stop()
        if timing.wall_s:
            yield timing


def calls(uuid: str, pid: int) -> Iterator[tuple[str, float, Reading]]:
    """Yield each NVML call of the sources by itself: its name, and how many seconds apart it is made."""
    fast, slow = fast_readings(), slow_readings(pid)
    slow_s = NvmlSlowSource.interval_s or INTERVAL_S
    for period_s, readings in ((INTERVAL_S, fast), (slow_s, slow)):
        for each in readings:
            name = " ".join((type(each).__name__, *each.metrics[:1]))
            yield (f"{name} (all {len(each.metrics)})" if isinstance(each, Fields) else name), period_s, each
    for period_s, fields in ((INTERVAL_S, FAST), (slow_s, SLOW)):
        for field_ in fields:
            yield f"one field: {field_.metric}", period_s, Fields([field_])
    yield "buffer of utilisation", UtilisationSource.interval_s, Drain(time.time_ns() // 1000)
    gpm_s = GpmSource.interval_s or INTERVAL_S
    yield f"Gpm (all {len(GPM_METRICS)})", gpm_s, Gpm(uuid)


def time_calls(uuid: str, pid: int) -> Iterator[Timing]:
    """Make each call by itself, with a pause between two."""
    handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    for name, period_s, reading in calls(uuid, pid):
        yield _timed(name, period_s, lambda reading=reading: reading.read(handle))  # type: ignore[misc]


def _timed(name: str, period_s: float, action: Callable[[], object]) -> Timing:
    """Do something again and again; what fails is named with the reason and bears no figures."""
    timing = Timing(name, period_s)
    end = time.perf_counter() + CALL_LIMIT_S
    try:
        action()  # the first is slower
        while len(timing.wall_s) < CALLS and time.perf_counter() < end:
            time.sleep(PAUSE_S)
            timing.add(action)
    except (pynvml.NVMLError, UnreadableError) as error:
        return Timing(f"{name}: {error}", period_s)
    return timing


@contextmanager
def watched(pid: int | None) -> Iterator[int]:
    """Give `pid`, or that of a child process which ends with this one."""
    if pid is not None:
        yield pid
        return
    child = subprocess.Popen([sys.executable, "-c", BUSY])
    try:
        yield child.pid
    finally:
        child.kill()
        child.wait()


def main() -> None:
    """Measure, and print tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long to watch each source")
    parser.add_argument("--pid", type=int, help="a container's first process")
    arguments = parser.parse_args()
    present, reason = discover()
    gpus = {f"gpu{place}": gpu.mig_uuid or gpu.uuid for place, gpu in enumerate(present)}
    with watched(arguments.pid) as pid:
        target = Target(pid=pid, gpus=gpus)
        timings = time_sources(default_sources(), target, arguments.seconds)
        _print(f"Sources, {len(gpus)} GPUs, at their own intervals", timings)
        if not gpus:
            sys.stdout.write(f"\nNo NVML calls measured. {reason}\n")
            return
        pynvml.nvmlInit()
        try:
            title = f"Single NVML calls on {present[0].name}, {PAUSE_S * 1000:.0f} ms apart"
            _print(f"{title}; CPU use at their own intervals", time_calls(gpus["gpu0"], pid))
        finally:
            pynvml.nvmlShutdown()


def _print(title: str, timings: Iterator[Timing]) -> None:
    """Print a table row by row, as soon as each is known."""
    sys.stdout.write(f"\n## {title}\n\n")
    for line in markdown(HEADS, (timing.row() for timing in timings)):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
