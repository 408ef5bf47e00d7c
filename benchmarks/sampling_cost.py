"""What each telemetry source, and each single NVML call, costs on this machine.

    python -m benchmarks.sampling_cost [--seconds 3] [--pid PID]

Reads are made at the sampler's interval with sleep between them, as in a real run: called back to back they
would find every cache warm and look several times cheaper. PID is a container's first process, for the
source "cgroup"; without it this process is watched, which the source "process" does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pynvml
import typer

from benchmarks.tables import markdown
from harness.system.gpus import discover
from harness.telemetry import Target
from harness.telemetry.gpm import GPM_METRICS, Gpm, GpmSource
from harness.telemetry.gpu_source import Fields, Reading
from harness.telemetry.nvml import FAST, SLOW, NvmlSlowSource, fast_readings, slow_readings
from harness.telemetry.nvml_utilisation import Drain, UtilisationSource
from harness.telemetry.sources import default_sources

INTERVAL_S = 0.1
# Pauses beyond this make caches no colder.
LONGEST_PAUSE_S = 1.0
# How often a single call is made, and the pause before each.
CALLS, PAUSE_S = 20, 0.03
HEADS = ("what", "every, s", "median, us", "p99, us", "CPU, us", "CPU, % of a core", "n")
Row = Sequence[str]


def timed(name: str, period_s: float, action: Callable[[], object], *, times: int, pause_s: float) -> Row:
    """Do something again and again; return a row of its times, and its CPU use at intervals of `period_s`."""
    wall_s, cpu_s = [], []
    for _ in range(times):
        time.sleep(pause_s)
        cpu_began, began = time.thread_time(), time.perf_counter()
        action()
        wall_s.append(time.perf_counter() - began)
        cpu_s.append(time.thread_time() - cpu_began)
    figures = (*np.percentile(wall_s, (50, 99)) * 1e6, np.mean(cpu_s) * 1e6)
    share = f"{100 * np.mean(cpu_s) / period_s:.3f}"
    return (name, f"{period_s:g}", *(f"{figure:,.0f}" for figure in figures), share, str(times))


def source_rows(target: Target, seconds: float) -> Iterator[Row]:
    """Read each source that gives anything at its own interval; the others stay cold meanwhile."""
    for source in default_sources():
        columns = source.start(target, lambda *gap: None)
        period_s = max(INTERVAL_S, source.interval_s or 0.0)
        pause_s = min(period_s, LONGEST_PAUSE_S)
        times = max(3, round(seconds / pause_s))
        if any(columns.values()):
            read = source.read
            yield timed(source.name, period_s, lambda read=read: tuple(read()), times=times, pause_s=pause_s)
        source.stop()


def calls(uuid: str, pid: int) -> Iterator[tuple[str, float, Reading]]:
    """Yield each NVML call of the sources by itself: its name, and how many seconds apart it is made."""
    slow_s = NvmlSlowSource.interval_s or INTERVAL_S
    for period_s, readings in ((INTERVAL_S, fast_readings()), (slow_s, slow_readings(pid))):
        for each in readings:
            name = " ".join((type(each).__name__, *each.metrics[:1]))
            yield (f"{name} (all {len(each.metrics)})" if isinstance(each, Fields) else name), period_s, each
    for period_s, fields in ((INTERVAL_S, FAST), (slow_s, SLOW)):
        for metric, field in fields.items():
            yield f"one field: {metric}", period_s, Fields({metric: field})
    yield "buffer of utilisation", UtilisationSource.interval_s, Drain(time.time_ns() // 1000)
    yield f"Gpm (all {len(GPM_METRICS)})", GpmSource.interval_s or INTERVAL_S, Gpm(uuid)


def call_rows(uuid: str, pid: int) -> Iterator[Row]:
    """Make each call by itself; what fails is named with the reason and bears no figures."""
    handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
    for name, period_s, reading in calls(uuid, pid):
        try:
            reading.read(handle)  # the first is slower
            read = reading.read
            yield timed(name, period_s, lambda read=read: read(handle), times=CALLS, pause_s=PAUSE_S)
        except pynvml.NVMLError as error:
            yield (f"{name}: {error}", *[""] * (len(HEADS) - 1))


def main(seconds: float = 3.0, pid: int = os.getpid()) -> None:
    """Print Markdown row by row: the sources, each read for so many seconds, then single calls of NVML."""
    present, reason = discover()
    gpus = {f"gpu{place}": gpu.cuda_id for place, gpu in enumerate(present)}
    title = f"Sources, {len(gpus)} GPUs, at their own intervals"
    _print(title, source_rows(Target(pid=pid, gpus=gpus), seconds))
    if not gpus:
        print(f"\nNo NVML calls measured. {reason}")
        return
    pynvml.nvmlInit()
    title = f"Single NVML calls on {present[0].name}, {PAUSE_S * 1000:.0f} ms apart"
    _print(f"{title}; CPU use at their own intervals", call_rows(gpus["gpu0"], pid))


def _print(title: str, rows: Iterator[Row]) -> None:
    print(f"\n## {title}\n")
    for line in markdown(HEADS, rows):
        print(line, flush=True)


if __name__ == "__main__":
    typer.run(main)
