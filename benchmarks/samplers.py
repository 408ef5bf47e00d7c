"""Samplers, ours and other people's, each a process that samples until it is killed.

    python -m benchmarks.samplers tfbench|nvitop|zeus|codecarbon [--rate-hz 10] [--gpu 0] [--uuid U] [--pid P]

Theirs run in an environment of their own, made by `make overhead`, which has nothing of the harness.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path


def tfbench(given: argparse.Namespace) -> None:
    """Sample all sources of telemetry into files, as in a run."""
    telemetry = importlib.import_module("harness.telemetry")
    sampler = importlib.import_module("harness.telemetry.sampler")
    sources = importlib.import_module("harness.telemetry.sources").default_sources()
    target = telemetry.Target(pid=given.pid, gpus={"gpu0": given.uuid} if given.uuid else {})
    with (
        tempfile.TemporaryDirectory() as folder,
        sampler.sample(sources, target, Path(folder), 1 / given.rate_hz),
    ):
        sleep_for_ever()


def nvitop(given: argparse.Namespace) -> None:
    """Read what a script that logs a GPU by nvitop's Python API would read."""
    device = importlib.import_module("nvitop").Device(given.gpu)
    due = time.monotonic()
    while True:
        for read in ("utilization_rates", "memory_info", "power_usage", "temperature", "clock_infos"):
            getattr(device, read)()
        due += 1 / given.rate_hz
        time.sleep(max(0.0, due - time.monotonic()))


def zeus(given: argparse.Namespace) -> None:
    """Open a window of Zeus' energy monitor, and poll power beside it."""
    monitor = importlib.import_module("zeus.monitor").ZeusMonitor(gpu_indices=[given.gpu], cpu_indices=[])
    monitor.begin_window("interval", sync_execution=False)
    power = importlib.import_module("zeus.monitor.power")
    power.PowerMonitor(gpu_indices=[given.gpu], update_period=1 / given.rate_hz)
    sleep_for_ever()


def codecarbon(given: argparse.Namespace) -> None:
    """Track offline once a second, the fastest that CodeCarbon's documentation uses."""
    importlib.import_module("codecarbon").OfflineEmissionsTracker(
        country_iso_code="USA",
        measure_power_secs=1,
        save_to_file=False,
        log_level="critical",
        allow_multiple_runs=True,
        gpu_ids=None if given.gpu is None else [given.gpu],
    ).start()
    sleep_for_ever()


def sleep_for_ever() -> None:
    """Leave the work to threads."""
    while True:
        time.sleep(60)


SAMPLERS: Mapping[str, Callable[[argparse.Namespace], None]] = {
    each.__name__: each for each in (tfbench, nvitop, zeus, codecarbon)
}


def main() -> None:
    """Run one sampler for ever."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sampler", choices=SAMPLERS)
    parser.add_argument("--rate-hz", type=float, default=10.0)
    parser.add_argument("--gpu", type=int)
    parser.add_argument("--uuid", default="")
    parser.add_argument("--pid", type=int)
    given = parser.parse_args()
    SAMPLERS[given.sampler](given)


if __name__ == "__main__":
    sys.exit(main())
