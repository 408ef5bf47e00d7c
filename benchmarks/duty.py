"""Whether a load that is on half of the time looks like one: 200 ms of matrix products, 200 ms of sleep.

    python -m benchmarks.duty [--seconds 20] [--work build/duty]

A process makes the load by PyTorch, or TensorFlow where there is no PyTorch; our sampler watches the GPU as
in a run. For each series the table shows how its readings are spread, and how they would be after averaging
over a second, which is what tools that sample once a second have: an on/off load reads as half a load there.
"""

from __future__ import annotations

import argparse
import importlib
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.model.run import Series
from harness.system.gpus import discover
from harness.telemetry import Target
from harness.telemetry.csvfile import read_series
from harness.telemetry.sampler import sample
from harness.telemetry.sources import default_sources

ON_S = OFF_S = 0.2
RATE_HZ = 10
SIZE = 8192
LEAD_S = 1.0
UTILISATION = ("gpu_util_pct", "graphics_util_pct", "sm_util_pct", "tensor_util_pct", "mem_util_pct")
POWER = ("power_instant_w", "power_usage_w", "power_average_w")
LOW, HIGH = 0.2, 0.8

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """How readings lie between nothing (0) and full load (1): shares below LOW and above HIGH."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Floats, floor: float, ceiling: float) -> Spread:
        """Look at readings; `floor` and `ceiling` are what nothing and full load read as."""
        scaled = (values - floor) / (ceiling - floor) if ceiling > floor else np.zeros(len(values))
        return cls(
            mean=float(values.mean()),
            low=float((scaled < LOW).mean()),
            high=float((scaled > HIGH).mean()),
        )


def rows(telemetry: Sequence[Series], start_ns: int, end_ns: int) -> Iterator[tuple[str, ...]]:
    """Give a line for each utilisation and power series of the GPU between two instants.

    Utilisation is held against 0 and 100 %; power against the lowest and highest that this series read, as a
    GPU's idle and full power are its own. So is a utilisation whose load never fills the GPU.
    """
    for series in telemetry:
        inside = (series.t_ns >= start_ns) & (series.t_ns <= end_ns)
        for metric, values in series.columns.items():
            if metric not in (*UTILISATION, *POWER):
                continue
            good = inside & np.isfinite(values)
            if good.sum() < 3:
                continue
            t_ns, read = series.t_ns[good], values[good]
            full = metric in {"gpu_util_pct", "graphics_util_pct"}
            floor, ceiling = (0.0, 100.0) if full else (float(read.min()), float(read.max()))
            fine = Spread.of(read, floor, ceiling)
            means = by_second(t_ns, read)
            coarse = Spread.of(means, floor, ceiling) if len(means) else None
            yield (
                f"{series.source} {metric}",
                f"{(len(read) - 1) * 1e9 / (t_ns[-1] - t_ns[0]):.1f}",
                f"{fine.mean:.1f}",
                f"{read.min():.0f} to {read.max():.0f}",
                f"{fine.low:.0%}",
                f"{fine.high:.0%}",
                f"{coarse.low:.0%}" if coarse else "-",
                f"{coarse.high:.0%}" if coarse else "-",
            )


def by_second(t_ns: NDArray[np.int64], values: Floats) -> Floats:
    """Average readings over whole seconds from the first on; an incomplete last second is left out."""
    seconds = (t_ns - t_ns[0]) // 1_000_000_000
    whole = seconds < seconds[-1]
    sums = np.bincount(seconds[whole], weights=values[whole])
    counts = np.bincount(seconds[whole])
    return np.asarray(sums[counts > 0] / counts[counts > 0])


def torch_product() -> Callable[[], None]:
    """Return a function that multiplies two half-precision matrices on the GPU and waits for it."""
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        raise ImportError("PyTorch has no GPU")
    a, b = (torch.randn(SIZE, SIZE, device="cuda", dtype=torch.float16) for _ in range(2))

    def product() -> None:
        torch.mm(a, b)
        torch.cuda.synchronize()

    return product


def tensorflow_product() -> Callable[[], None]:
    """Return the same by TensorFlow."""
    tf = importlib.import_module("tensorflow")
    if not tf.config.list_physical_devices("GPU"):
        raise ImportError("TensorFlow has no GPU")
    a, b = (tf.cast(tf.random.normal((SIZE, SIZE)), tf.float16) for _ in range(2))

    def product() -> None:
        tf.reduce_max(tf.matmul(a, b)).numpy()

    return product


def load(seconds: float) -> None:
    """Make the load, once a line comes in on standard input, with its edges on multiples of the period.

    Raises:
        ImportError: neither PyTorch nor TensorFlow has a GPU.
    """
    try:
        product = torch_product()
    except ImportError:
        product = tensorflow_product()
    for _ in range(10):
        product()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    duty_cycle(product, seconds, time.monotonic, time.sleep)


def duty_cycle(
    product: Callable[[], None], seconds: float, now: Callable[[], float], sleep: Callable[[float], None]
) -> None:
    """Call `product` for ON_S and sleep for OFF_S; cycles begin on a fixed schedule, so that none drifts."""
    begin = now()
    for cycle in range(round(seconds / (ON_S + OFF_S))):
        due = begin + cycle * (ON_S + OFF_S)
        sleep(max(0.0, due - now()))
        while now() < due + ON_S:
            product()


@contextmanager
def loading(seconds: float) -> Iterator[subprocess.Popen[str]]:
    """Give a process that has made ready and begins when a line is written to it."""
    command = [sys.executable, "-m", "benchmarks.duty", "--load", "--seconds", str(seconds)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            # What libraries print before is passed over.
            if not any(line == "ready\n" for line in process.stdout):
                raise RuntimeError("the load did not start: it needs PyTorch or TensorFlow with a GPU")
            yield process
        finally:
            process.kill()


def watch(seconds: float, folder: Path) -> Sequence[str]:
    """Watch the load into `folder` and return a Markdown table."""
    cards, reason = discover()
    if not cards:
        return (f"No GPU: {reason}",)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with loading(seconds) as process:
        assert process.stdin is not None
        target = Target(pid=process.pid, gpus={"gpu0": cards[0].mig_uuid or cards[0].uuid})
        with sample(default_sources(), target, folder, 1 / RATE_HZ) as sampling:
            time.sleep(LEAD_S)
            start_ns = time.monotonic_ns()
            process.stdin.write("\n")
            process.stdin.flush()
            if process.wait():
                raise RuntimeError("the load broke off; what it said stands above")
            # The driver's buffers are drained once a second.
            time.sleep(LEAD_S)
    # Averages over a second have yet to rise in the first one.
    end_ns = start_ns + round(seconds * 1e9)
    start_ns += 1_000_000_000
    telemetry = [series for series in read_series(folder) if series.device == "gpu0"]
    heads = ("series", "readings/s", "mean", "range", f"below {LOW:.0%}", f"above {HIGH:.0%}")
    heads += (f"1 s mean below {LOW:.0%}", f"1 s mean above {HIGH:.0%}")
    return (
        f"{cards[0].name}: {ON_S * 1e3:.0f} ms on, {OFF_S * 1e3:.0f} ms off for {seconds:g} s:",
        "",
        f"| {' | '.join(heads)} |",
        f"|{'---|' * len(heads)}",
        *(f"| {' | '.join(row)} |" for row in rows(telemetry, start_ns, end_ns)),
        "",
        f"{LOW:.0%} and {HIGH:.0%} of 100 for gpu_util_pct and graphics_util_pct, of the way from lowest",
        "to highest reading for all others.",
        f"The sampler took {sampling.cost.get('cpu_pct', float('nan')):.2f} % of a core;"
        f" {len(sampling.gaps)} gaps.",
    )


def main() -> int:
    """Watch, or be the load."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--work", type=Path, default=Path("build/duty"))
    parser.add_argument("--load", action="store_true", help="be the load, not who watches it")
    given = parser.parse_args()
    if given.load:
        load(given.seconds)
        return 0
    for line in watch(given.seconds, given.work):
        sys.stdout.write(f"{line}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
