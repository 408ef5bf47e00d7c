"""What each sampler costs the workload it watches, and itself."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from benchmarks.trainer import WORKLOAD, training
from harness.analysis.stats import estimate
from harness.engines import Container
from harness.model import Window
from harness.store import TrialFolder, read_outcome
from harness.telemetry import Target
from harness.telemetry.sampler import sample
from harness.telemetry.sources import default_sources

TURN_S = 4.0
WINDOW_S = 0.25
SETTLE_S = 1.0
RATE_HZ = 10

CODECARBON = """
import sys
from codecarbon import OfflineEmissionsTracker
tracker = OfflineEmissionsTracker(
    country_iso_code="USA", measure_power_secs=1, save_to_file=False, log_level="critical"
)
tracker.start()
sys.stdout.write("on\\n"); sys.stdout.flush()
sys.stdin.read()
tracker.stop()
"""  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A stretch in which one sampler watched; `cpu_s` is the processor time that it took itself."""

    sampler: str
    round: int
    start_ns: int
    end_ns: int
    cpu_s: float
    rss_bytes: int


def measure(rounds: int, work: Path) -> Sequence[str]:
    """Return a Markdown table: slowdown of the workload, processor time and memory, for each sampler."""
    samplers: dict[str, Callable[[Container, Path], AbstractContextManager[psutil.Process | None]]] = {
        "none": _nobody,
        f"tfbench, {RATE_HZ} Hz": _ours,
        "docker stats, 1 Hz": _docker_stats,
        "CodeCarbon, 1 Hz": _codecarbon,
    }
    turns: list[Turn] = []
    windows = int(rounds * len(samplers) * (TURN_S + 2 * SETTLE_S) / WINDOW_S) + 400
    with training(work, windows, WINDOW_S) as (container, folder, _engine):
        _wait_for_windows(container, folder)
        for number in range(rounds):
            names = list(samplers)
            # Each round starts with another sampler, so that none always follows the same one.
            for name in names[number % len(names) :] + names[: number % len(names)]:
                turns.append(_turn(name, number, samplers[name], container, work))
        measured = read_outcome(folder).windows
    return _table(turns, measured, rounds)


def _turn(
    name: str,
    number: int,
    sampler: Callable[[Container, Path], AbstractContextManager[psutil.Process | None]],
    container: Container,
    work: Path,
) -> Turn:
    me = psutil.Process()
    with sampler(container, work) as process:
        time.sleep(SETTLE_S)
        watched = process or me
        before = _cpu_s(watched)
        start_ns = time.monotonic_ns()
        time.sleep(TURN_S)
        end_ns = time.monotonic_ns()
        turn = Turn(
            sampler=name,
            round=number,
            start_ns=start_ns,
            end_ns=end_ns,
            cpu_s=_cpu_s(watched) - before,
            rss_bytes=watched.memory_info().rss,
        )
    time.sleep(SETTLE_S)
    return turn


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _wait_for_windows(container: Container, folder: TrialFolder) -> None:
    while not read_outcome(folder).windows:
        if container.poll() is not None:
            raise RuntimeError(f"the workload ended early: {container.log()}")
        time.sleep(0.5)


@contextmanager
def _nobody(container: Container, work: Path) -> Iterator[psutil.Process | None]:
    yield None


@contextmanager
def _ours(container: Container, work: Path) -> Iterator[psutil.Process | None]:
    folder = work / f"telemetry-{time.monotonic_ns()}"
    folder.mkdir(parents=True)
    with sample(default_sources(), Target(pid=container.pid, gpus={}), folder, 1 / RATE_HZ):
        yield None


@contextmanager
def _docker_stats(container: Container, work: Path) -> Iterator[psutil.Process | None]:
    command = ["docker", "stats", "--format", "{{json .}}", container.id]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            yield psutil.Process(process.pid)
        finally:
            process.kill()


@contextmanager
def _codecarbon(container: Container, work: Path) -> Iterator[psutil.Process | None]:
    command = [sys.executable, "-c", CODECARBON]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        if process.stdout.readline() != "on\n":
            raise RuntimeError("CodeCarbon did not start: pip install codecarbon")
        try:
            yield psutil.Process(process.pid)
        finally:
            process.kill()


def _speed(windows: Sequence[Window], turn: Turn) -> float:
    inside = [w for w in windows if w.start_ns >= turn.start_ns and w.end_ns <= turn.end_ns]
    busy_ns = sum(window.end_ns - window.start_ns for window in inside)
    return sum(window.samples for window in inside) * 1e9 / busy_ns if busy_ns else float("nan")


def _table(turns: Sequence[Turn], windows: Sequence[Window], rounds: int) -> Sequence[str]:
    speeds = {(turn.sampler, turn.round): _speed(windows, turn) for turn in turns}
    lines = [
        f"Sampling, {WORKLOAD} as written on {psutil.cpu_count()} cores,"
        f" {rounds} interleaved rounds of {TURN_S:g} s:",
        "",
        "| sampler | slowdown, % (95 % interval) | its own time, % of one core | memory, MiB |",
        "|---|---|---|---|",
    ]
    for name in dict.fromkeys(turn.sampler for turn in turns):
        mine = [turn for turn in turns if turn.sampler == name]
        slow = estimate(
            [100 * (speeds["none", turn.round] / speeds[name, turn.round] - 1) for turn in mine], "%"
        )
        cpu = sorted(100 * turn.cpu_s * 1e9 / (turn.end_ns - turn.start_ns) for turn in mine)
        memory = max(turn.rss_bytes for turn in mine) / 2**20
        words = (
            "-"
            if name == "none" or slow is None
            else f"{slow.median:.2f} ({slow.low:.2f} to {slow.high:.2f})"
        )
        lines.append(f"| {name} | {words} | {cpu[len(cpu) // 2]:.2f} | {memory:.0f} |")
    lines.append("")
    lines.append(
        "Processor time and memory are the sampling process' own; those of `none` are this benchmark's,"
        " in which tfbench's sampler runs too. What the engine spends on `docker stats` comes on top."
    )
    return lines
