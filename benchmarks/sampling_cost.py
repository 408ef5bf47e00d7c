"""What each telemetry source, and each single NVML call, costs on this machine.

    python -m benchmarks.sampling_cost [--seconds 10] [--pid PID]

Reads are made at the sampler's pace with sleep between them, as in a real run: called back to back they
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
import psutil
import pynvml
from rich.console import Console
from rich.table import Table

from harness.gpus import discover
from harness.telemetry import Source, Target
from harness.telemetry.gpm import Gpm
from harness.telemetry.nvml import fast_readings
from harness.telemetry.nvml_buffers import POWER, UTILISATION, Drain
from harness.telemetry.nvml_card import Reading
from harness.telemetry.nvml_fields import FAST, SLOW, Fields
from harness.telemetry.nvml_slow import Xid, slow_readings
from harness.telemetry.sources import default_sources

INTERVAL_S = 0.1
_WIDTH = 120
BUSY = "import time\nwhile time.process_time() < 600: time.sleep(0.01)"


@dataclass(frozen=True, slots=True)
class Timing:
    """Wall clock and processor seconds of one thing, done again and again."""

    name: str
    period_s: float
    first_s: float = 0.0
    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    def add(self, action: Callable[[], object]) -> None:
        """Do it once more."""
        cpu_s, wall_s = time.thread_time(), time.perf_counter()
        action()
        self.wall_s.append(time.perf_counter() - wall_s)
        self.cpu_s.append(time.thread_time() - cpu_s)

    def row(self) -> tuple[str, ...]:
        """Give the cells of a table: microseconds, and processor use in percent of one core."""
        median, p99 = np.percentile(self.wall_s, (50, 99)) * 1e6
        cpu = float(np.mean(self.cpu_s))
        return (
            self.name,
            f"{self.first_s * 1e6:,.0f}",
            f"{median:,.0f}",
            f"{p99:,.0f}",
            f"{cpu * 1e6:,.0f}",
            f"{100 * cpu / self.period_s:.3f}",
            str(len(self.wall_s)),
        )


def psutil_host() -> None:
    """Read with psutil what the source "host" reads, but for pressure, which psutil does not have."""
    psutil.cpu_times()
    psutil.cpu_times(percpu=True)
    psutil.cpu_stats()
    psutil.getloadavg()
    psutil.virtual_memory()
    psutil.swap_memory()
    psutil.disk_io_counters(perdisk=True)
    psutil.net_io_counters(pernic=True)


def time_sources(sources: Sequence[Source], target: Target, seconds: float) -> Iterator[Timing]:
    """Read each source at its own pace, one after another so that none warms the caches for the next."""
    for source in sources:
        begin = time.perf_counter()
        columns = source.start(target, lambda *gap: None)
        first_s = time.perf_counter() - begin
        if not any(columns.values()):
            source.stop()
            continue
        period_s = max(INTERVAL_S, source.interval_s or 0.0)
        timing = Timing(source.name, period_s, first_s)

        def read(source: Source = source) -> tuple[object, ...]:
            return tuple(source.read())

        _repeat(timing, read, seconds)
        source.stop()
        yield timing
    timing = Timing("host, by psutil", INTERVAL_S)
    _repeat(timing, psutil_host, seconds)
    yield timing


def _repeat(timing: Timing, action: Callable[[], object], seconds: float) -> None:
    for _ in range(max(3, round(seconds / timing.period_s))):
        time.sleep(timing.period_s)
        timing.add(action)


def time_calls(uuid: str, pid: int, count: int) -> Iterator[Timing]:
    """Make each NVML call of the sources by itself, at the sampler's pace."""
    readings: list[tuple[str, Reading]] = [
        (type(each).__name__ + " " + " ".join(each.metrics[:1]), each)
        for each in (*fast_readings(), *slow_readings(pid), Xid(), Gpm(uuid))
    ]
    readings += [(f"one field: {each.metric}", Fields([each])) for each in (*FAST, *SLOW)]
    now_us = time.time_ns() // 1000
    readings += [(f"buffer: {each.source}", Drain(each, now_us)) for each in (POWER, UTILISATION)]
    handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    for name, reading in readings:
        try:
            begin = time.perf_counter()
            values = reading.read(handle, lambda metric, code: None)
            timing = Timing(name, INTERVAL_S, time.perf_counter() - begin)
            supported = bool(values) or isinstance(reading, Gpm | Drain)
            for _ in range(count if supported else 0):
                time.sleep(INTERVAL_S / 4)
                timing.add(lambda reading=reading: reading.read(handle, lambda metric, code: None))  # type: ignore[misc]
        except pynvml.NVMLError as error:
            supported = False
            name = f"{name}: {error}"  # noqa: PLW2901
        if supported:
            yield timing
        else:
            yield Timing(
                f"{name} (nothing to read here)", INTERVAL_S, wall_s=[float("nan")], cpu_s=[float("nan")]
            )


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


def table(title: str, timings: Iterator[Timing]) -> Table:
    """Lay timings out."""
    made = Table(
        "what", "first, us", "median, us", "p99, us", "CPU, us", "CPU, % of a core", "n", title=title
    )
    made.columns[0].no_wrap = True
    for column in made.columns[1:]:
        column.justify = "right"
    for timing in timings:
        made.add_row(*timing.row())
    return made


def main() -> None:
    """Measure, and print tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long to watch each source")
    parser.add_argument("--pid", type=int, help="a container's first process")
    arguments = parser.parse_args()
    console = Console(width=_WIDTH)
    cards, reason = discover()
    gpus = {f"gpu{place}": card.mig_uuid or card.uuid for place, card in enumerate(cards)}
    with watched(arguments.pid) as pid:
        target = Target(pid=pid, gpus=gpus)
        title = f"Sources, {len(gpus)} GPUs, at their own pace"
        console.print(table(title, time_sources(default_sources(), target, arguments.seconds)))
        if not gpus:
            console.print(f"No NVML calls measured. {reason}")
            return
        pynvml.nvmlInit()
        try:
            uuid = next(iter(gpus.values()))
            title = f"Single NVML calls on {cards[0].name}; CPU share at 10 Hz"
            console.print(table(title, time_calls(uuid, pid, round(arguments.seconds * 10))))
        finally:
            pynvml.nvmlShutdown()


if __name__ == "__main__":
    main()
