"""What each sampler costs the workload that it watches, and itself.

    python -m benchmarks.sampling [--rounds N] [--device gpu] [--workload NAME]

One container trains, window after window, while samplers take turns of a few seconds: none, ours, and others' (on
a CPU `docker stats` and CodeCarbon, on a GPU nvitop, Zeus and CodeCarbon). Only windows that lie wholly inside a
turn count, and every turn is compared with the turn without a sampler of the same round, so that a drifting
machine cancels out.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TypeVar

import psutil
import typer

from benchmarks.tables import markdown
from harness.analysis.stats import estimate
from harness.engines import Container
from harness.model.options import Options
from harness.model.platform import Gpu
from harness.paths import paths_here
from harness.progress import Silent
from harness.run.events import read_log
from harness.run.prepare import prepare
from harness.run.resolve import resolve
from harness.run.store import TrialFolder
from workloads.protocol import BASELINE, MODEL_ONLY

FOLDER = Path("build/overhead")
# Other people's samplers have an environment of their own, made by `make overhead`.
PEERS_PYTHON = Path("build/compare/bin/python")
TURN_S, WINDOW_S, SETTLE_S = 3.0, 0.25, 3.0
RATE_HZ = 10
# More windows than fit into any benchmark: the container is killed, not waited for.
ENDLESS = 1_000_000
# What shows a sampler's disturbance best: many short steps on the host, or a GPU kept busy.
VARIANTS = {"cifar100-mlp": BASELINE, "resnet50": MODEL_ONLY}
NONE = "none"

T = TypeVar("T")
# Sampler -> its command; () for NONE.
Commands = Mapping[str, Sequence[str]]


class UnavailableError(Exception):
    """A sampler that cannot take part: why, in words for the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """A running container, the folder that it writes to, and the GPU that it runs on."""

    container: Container
    folder: TrialFolder
    gpu: Gpu | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """An interval in which one sampler watched.

    Attributes:
        cpu_s, memory_bytes: what its process took, pages that it shares counted in parts (PSS).
        speed: samples/s of the workload in the windows inside; NaN until known.
    """

    sampler: str
    round: int
    start_ns: int
    end_ns: int
    cpu_s: float = 0.0
    memory_bytes: int = 0
    speed: float = float("nan")


def main(
    rounds: int = 12, workload: str = "cifar100-mlp", device: str = "cpu", engine: str = "docker"
) -> None:
    """Print a Markdown table with a line for each sampler."""
    variant = VARIANTS.get(workload, BASELINE)
    options = Options(
        engine=engine, device=device, workloads=(workload,), variants=variant, trials=1, out=FOLDER / "runs"
    )
    with training(options) as watched:
        turns, unavailable = take_turns(commands(watched), rounds)
        windows = [
            (each.start_ns, each.end_ns, each.samples) for each in read_log(watched.folder.events).windows
        ]
    turns = [replace(turn, speed=speed(windows, turn.start_ns, turn.end_ns)) for turn in turns]
    name = watched.gpu.name if watched.gpu else f"{psutil.cpu_count()} cores"
    print(f"Sampling, {workload} {variant} on {name}, {rounds} interleaved rounds of {TURN_S:g} s:\n")
    print("\n".join(table(turns, unavailable)))


@contextmanager
def training(options: Options) -> Iterator[Training]:
    """Yield a container that measures window after window without end, once it has measured the first.

    Raises:
        RuntimeError: the workload ended instead.
    """
    resolved = resolve(options)
    prepared = prepare(resolved, paths_here(), Silent())
    container: Container | None = None
    try:
        job = prepared.jobs[0]
        endless = replace(
            job.spec, windows=ENDLESS, window_s=WINDOW_S, variant_s=0.0, analysis_windows=0,
            analysis_window_s=0.0, analysis_variant_s=0.0,
        )  # fmt: skip
        folder = prepared.folder.open_trial(job.planned, endless)
        container = prepared.engine.start(replace(job.container, out=folder.out))
        while not read_log(folder.events).windows:
            if container.poll() is not None:
                raise RuntimeError(f"the workload ended early: {container.log()}")
            time.sleep(0.5)
        gpu = resolved.gpus[job.planned.gpus[0]] if job.planned.gpus else None
        yield Training(container=container, folder=folder, gpu=gpu)
    finally:
        if container is not None:
            container.kill()
            container.remove()
        prepared.engine.close()
        shutil.rmtree(prepared.folder.path, ignore_errors=True)


def commands(watched: Training) -> Commands:
    """Return who takes turns; the first is nobody."""
    gpu, pid = watched.gpu, watched.container.pid
    arguments = ["--rate-hz", str(RATE_HZ)]
    arguments += ["--pid", str(pid)] if pid is not None else []
    if gpu is not None:
        arguments += ["--gpu", str(gpu.index), "--uuid", gpu.cuda_id]
    theirs = str(PEERS_PYTHON.absolute()) if PEERS_PYTHON.exists() else sys.executable

    def sampler(name: str, python: str = theirs) -> Sequence[str]:
        return (python, "-m", "benchmarks.samplers", name, *arguments)

    everyone: dict[str, Sequence[str]] = {
        NONE: (),
        f"tfbench, {RATE_HZ} Hz": sampler("tfbench", sys.executable),
    }
    if gpu is not None:
        everyone |= {f"nvitop, {RATE_HZ} Hz": sampler("nvitop"), f"Zeus, {RATE_HZ} Hz": sampler("zeus")}
    else:
        stats = ("docker", "stats", "--format", "{{json .}}", watched.container.id)
        everyone["docker stats, 1 Hz"] = stats
    return {**everyone, "CodeCarbon, 1 Hz": sampler("codecarbon")}


def take_turns(
    everyone: Commands, rounds: int, turn_s: float = TURN_S, settle_s: float = SETTLE_S
) -> tuple[list[Turn], Mapping[str, str]]:
    """Let samplers take turns, each round beginning with another; return turns, and who could not and why."""
    unavailable: dict[str, str] = {}
    turns: list[Turn] = []
    for number in range(rounds):
        for name in rotated(list(everyone), number):
            if name in unavailable:
                continue
            try:
                log = FOLDER / "logs" / f"{name}.log"
                with running(everyone[name], log, settle_s) as process:
                    before_s, start_ns = _cpu_s(process), time.monotonic_ns()
                    time.sleep(turn_s)
                    turn = Turn(sampler=name, round=number, start_ns=start_ns, end_ns=time.monotonic_ns())
                    if process is not None:
                        spent_s, memory = (
                            _cpu_s(process) - before_s,
                            psutil.Process(process.pid).memory_full_info().pss,
                        )
                        turn = replace(turn, cpu_s=spent_s, memory_bytes=memory)
                turns.append(turn)
            except UnavailableError as error:
                unavailable[name] = str(error)
    return turns, unavailable


@contextmanager
def running(command: Sequence[str], log: Path, settle_s: float) -> Iterator[subprocess.Popen[bytes] | None]:
    """Run a command until the block ends; give its process after so many seconds, None for no command.

    Raises:
        UnavailableError: it could not be started, or ended too early; the reason is the last line of its log.
    """
    if not command:
        time.sleep(settle_s)
        yield None
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    try:
        with log.open("w") as errors:
            started = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
    except OSError as error:
        raise UnavailableError(f"{command[0]}: {error.strerror}") from error
    try:
        time.sleep(settle_s)
        if started.poll() is None:
            yield started
        if started.poll() is not None:
            lines = log.read_text(errors="replace").strip().splitlines()
            raise UnavailableError(lines[-1] if lines else "it ended by itself")
    finally:
        started.kill()
        started.wait()


def _cpu_s(process: subprocess.Popen[bytes] | None) -> float:
    # Linux' clock of another process, all its threads, to the nanosecond: clock_getcpuclockid(3) makes this number.
    return time.clock_gettime((~process.pid << 3) | 2) if process else 0.0


def rotated(everyone: Sequence[T], number: int) -> Sequence[T]:
    """Return the order of a round: each starts with another, so that none always follows the same one."""
    first = number % len(everyone)
    return [*everyone[first:], *everyone[:first]]


def speed(windows: Sequence[tuple[int, int, int]], start_ns: int, end_ns: int) -> float:
    """Return samples/s over the windows (start, end, samples) that lie wholly inside; NaN when none does."""
    inside = [window for window in windows if window[0] >= start_ns and window[1] <= end_ns]
    busy_ns = sum(end - start for start, end, _ in inside)
    return sum(samples for _, _, samples in inside) * 1e9 / busy_ns if busy_ns else float("nan")


def table(turns: Sequence[Turn], unavailable: Mapping[str, str]) -> Iterator[str]:
    """Yield a Markdown table with a line for each sampler, each compared with NONE in the same round."""
    alone = {turn.round: turn.speed for turn in turns if turn.sampler == NONE}
    rows = []
    for name in dict.fromkeys(turn.sampler for turn in turns if turn.sampler != NONE):
        mine = [turn for turn in turns if turn.sampler == name]
        slow = estimate(
            [100 * (alone[turn.round] / turn.speed - 1) for turn in mine if turn.round in alone], "%"
        )
        share = median(100e9 * turn.cpu_s / (turn.end_ns - turn.start_ns) for turn in mine)
        slowdown = "-" if slow is None else f"{slow.median:+.2f} ({slow.low:+.2f} to {slow.high:+.2f})"
        memory = max(turn.memory_bytes for turn in mine) / 2**20
        rows.append((name, slowdown, f"{share:.2f}", f"{memory:.0f}"))
    heads = ("sampler", "slowdown, % (95 % interval)", "own time, % of a core", "memory, MiB")
    yield from markdown(heads, rows)
    yield ""
    yield "Medians over the rounds, memory the greatest (PSS), all of the sampler's own process only:"
    yield "what a daemon does for it, such as the engine for `docker stats`, comes on top."
    yield from (f"Left out: {name}, {why.rstrip('.')}." for name, why in unavailable.items())


if __name__ == "__main__":
    typer.run(main)
