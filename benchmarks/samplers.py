"""Run tfbench's sampler or another project's until the process is killed.

    python -m benchmarks.samplers tfbench|metrics_file|nvitop|zeus|codecarbon [--rate-hz 10] [--gpu 0] [--uuid U]
        [--pid P] [--run FOLDER]

The others run in a separate environment made by `make overhead`, without the harness.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

TRIALS = 12  # four workloads, three trials each


def tfbench(arguments: argparse.Namespace) -> None:
    """Sample all telemetry sources into files, as in a run."""
    telemetry = importlib.import_module("harness.telemetry")
    sampler = importlib.import_module("harness.telemetry.sampler")
    sources = sampler.default_sources()
    target = telemetry.Target(pid=arguments.pid, gpus={"gpu0": arguments.uuid} if arguments.uuid else {})
    with (
        tempfile.TemporaryDirectory() as folder,
        sampler.sample(sources, target, Path(folder), 1 / arguments.rate_hz),
    ):
        sleep_forever()


def metrics_file(arguments: argparse.Namespace) -> None:
    """Write the state of a run whose default trials have all ended, when it takes longest, as in a run."""
    live = importlib.import_module("harness.cli.metrics_file")
    store = importlib.import_module("harness.run.store")
    run, folder = store.read_run(arguments.run), store.RunFolder(arguments.run)
    ended = dataclasses.replace(run.trials[0], status=importlib.import_module("harness.model.run").Status.OK)
    progress = importlib.import_module("harness.progress").Silent()
    with (
        tempfile.TemporaryDirectory() as out,
        live.live_metrics(Path(out) / "tfbench.prom", folder, run, progress) as add,
    ):
        for number in range(TRIALS):
            add(dataclasses.replace(ended, id=f"{number}"))
        sleep_forever()


def nvitop(arguments: argparse.Namespace) -> None:
    """Poll the metrics that a typical GPU logging script reads through nvitop's Python API."""
    device = importlib.import_module("nvitop").Device(arguments.gpu)
    due = time.monotonic()
    while True:
        for read in ("utilization_rates", "memory_info", "power_usage", "temperature", "clock_infos"):
            getattr(device, read)()
        due += 1 / arguments.rate_hz
        time.sleep(max(0.0, due - time.monotonic()))


def zeus(arguments: argparse.Namespace) -> None:
    """Open a window of Zeus' energy monitor and poll power at the same time."""
    monitor = importlib.import_module("zeus.monitor").ZeusMonitor(gpu_indices=[arguments.gpu], cpu_indices=[])
    monitor.begin_window("interval", sync_execution=False)
    power = importlib.import_module("zeus.monitor.power")
    power.PowerMonitor(gpu_indices=[arguments.gpu], update_period=1 / arguments.rate_hz)
    sleep_forever()


def codecarbon(arguments: argparse.Namespace) -> None:
    """Track offline once a second, the highest rate in CodeCarbon's documentation."""
    importlib.import_module("codecarbon").OfflineEmissionsTracker(
        country_iso_code="USA",
        measure_power_secs=1,
        save_to_file=False,
        log_level="critical",
        allow_multiple_runs=True,
        gpu_ids=None if arguments.gpu is None else [arguments.gpu],
    ).start()
    sleep_forever()


def sleep_forever() -> None:
    """Sleep while background threads do the work."""
    while True:
        time.sleep(60)


SAMPLERS: Mapping[str, Callable[[argparse.Namespace], None]] = {
    each.__name__: each for each in (tfbench, metrics_file, nvitop, zeus, codecarbon)
}


def main() -> None:
    """Run one sampler until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sampler", choices=SAMPLERS)
    parser.add_argument("--rate-hz", type=float, default=10.0)
    parser.add_argument("--gpu", type=int)
    parser.add_argument("--uuid", default="")
    parser.add_argument("--pid", type=int)
    parser.add_argument("--run", type=Path)
    arguments = parser.parse_args()
    SAMPLERS[arguments.sampler](arguments)


if __name__ == "__main__":
    main()
