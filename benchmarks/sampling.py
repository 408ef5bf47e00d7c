"""Measure the overhead of samplers: workload slowdown, and the sampler's own CPU time and memory.

    python -m benchmarks.sampling [--rounds N] [--device gpu] [--workload NAME]

One container trains continuously while samplers take turns of a few seconds: none, tfbench's, what writes its
--metrics-file, and others (`docker stats` and CodeCarbon on a CPU; nvitop, Zeus and CodeCarbon on a GPU). Only windows
entirely within a turn count. Each turn is compared with the turn without a sampler in the same round, so that machine
drift cancels out.
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

import psutil
import typer

from benchmarks.tables import markdown
from harness.engines import Container
from harness.intervals import estimate
from harness.model.platform import Gpu
from harness.options import Options
from harness.paths import paths_here
from harness.progress import Silent
from harness.run.events import read_log
from harness.run.placing import placed
from harness.run.prepare import prepare
from harness.run.resolve import resolve
from harness.run.store import TrialFolder
from workloads.variants import BASELINE, MODEL_ONLY

FOLDER = Path("build/overhead")
# Other projects' samplers have a separate environment, made by `make overhead`.
PEERS_PYTHON = Path("build/compare/bin/python")
TURN_S, WINDOW_S, SETTLE_S = 3.0, 0.25, 3.0
RATE_HZ = 10
# More windows than any benchmark uses; the container is killed at the end.
ENDLESS = 1_000_000
# Variants most sensitive to a sampler: many short steps on the host, or a busy GPU.
VARIANTS = {"cifar100-mlp": BASELINE, "resnet50": MODEL_ONLY}
NONE = "none"

# Sampler -> its command; () for NONE.
Commands = Mapping[str, Sequence[str]]


class UnavailableError(Exception):
    """A sampler cannot run; the message is the reason, for the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """A running container with its trial folder and GPU."""

    container: Container
    folder: TrialFolder
    gpu: Gpu | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """An interval in which one sampler was active.

    Attributes:
        cpu_s, memory_bytes: CPU time and memory (PSS) of the sampler's process.
        speed: the workload's samples/s in windows within the turn; NaN until computed.
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
    """Print a Markdown table with a row for each sampler."""
    variant = VARIANTS.get(workload, BASELINE)
    options = Options(
        engine=engine, device=device, workloads=(workload,), variants=variant, trials=1, out=FOLDER / "runs"
    )
    with training(options) as workload_run:
        turns, unavailable = take_turns(commands(workload_run), rounds)
        windows = [
            (each.start_ns, each.end_ns, each.samples)
            for each in read_log(workload_run.folder.events).windows
        ]
    turns = [replace(turn, speed=speed(windows, turn.start_ns, turn.end_ns)) for turn in turns]
    name = workload_run.gpu.name if workload_run.gpu else f"{psutil.cpu_count()} cores"
    print(
        f"Sampling overhead, {workload} {variant} on {name}, {rounds} interleaved rounds of {TURN_S:g} s:\n"
    )
    print("\n".join(table(turns, unavailable)))


@contextmanager
def training(options: Options) -> Iterator[Training]:
    """Yield a container that measures windows until killed, once its first window is done.

    Raises:
        RuntimeError: the workload ended early.
    """
    plan = resolve(options)
    prepared = prepare(plan, paths_here(), Silent())
    container: Container | None = None
    try:
        job = prepared.jobs[0]
        endless = replace(
            job.spec, windows=ENDLESS, window_s=WINDOW_S, variant_s=0.0, analysis_windows=0,
            analysis_window_s=0.0, analysis_variant_s=0.0,
        )  # fmt: skip
        prepared.folder.create(prepared.run)
        folder = prepared.folder.open_trial(job.planned)
        session = prepared.folder.session(job.planned.id)
        container = prepared.engine.start(replace(job.container, out=session))
        prepared.folder.announce(job.planned, placed(endless, container.seen))
        while not read_log(folder.events).windows:
            if container.poll() is not None:
                raise RuntimeError(f"the workload ended early: {container.log()}")
            time.sleep(0.5)
        gpu = plan.gpus[job.planned.gpus[0]] if job.planned.gpus else None
        yield Training(container=container, folder=folder, gpu=gpu)
    finally:
        if container is not None:
            container.kill()
            container.remove()
        prepared.engine.close()
        shutil.rmtree(prepared.folder.path, ignore_errors=True)


def commands(target: Training) -> Commands:
    """Return the command of each sampler; the first entry is no sampler."""
    gpu, pid = target.gpu, target.container.pid
    arguments = ["--rate-hz", str(RATE_HZ)]
    arguments += ["--pid", str(pid)] if pid is not None else []
    arguments += ["--run", str(target.folder.path.parents[1])]
    if gpu is not None:
        arguments += ["--gpu", str(gpu.index), "--uuid", gpu.cuda_id]
    peers_python = str(PEERS_PYTHON.absolute()) if PEERS_PYTHON.exists() else sys.executable

    def sampler(name: str, python: str = peers_python) -> Sequence[str]:
        return (python, "-m", "benchmarks.samplers", name, *arguments)

    samplers: dict[str, Sequence[str]] = {
        NONE: (),
        f"tfbench, {RATE_HZ} Hz": sampler("tfbench", sys.executable),
        "tfbench --metrics-file, 1 Hz": sampler("metrics_file", sys.executable),
    }
    if gpu is not None:
        samplers |= {f"nvitop, {RATE_HZ} Hz": sampler("nvitop"), f"Zeus, {RATE_HZ} Hz": sampler("zeus")}
    else:
        stats = ("docker", "stats", "--format", "{{json .}}", target.container.id)
        samplers["docker stats, 1 Hz"] = stats
    return {**samplers, "CodeCarbon, 1 Hz": sampler("codecarbon")}


def take_turns(
    samplers: Commands, rounds: int, turn_s: float = TURN_S, settle_s: float = SETTLE_S
) -> tuple[list[Turn], Mapping[str, str]]:
    """Run samplers in turns; return turns, and unavailable samplers with the reason."""
    unavailable: dict[str, str] = {}
    turns: list[Turn] = []
    for number in range(rounds):
        # Rotated, so that no sampler always follows the same other one.
        first = number % len(samplers)
        for name in (*list(samplers)[first:], *list(samplers)[:first]):
            if name in unavailable:
                continue
            try:
                log = FOLDER / "logs" / f"{name}.log"
                with running(samplers[name], log, settle_s) as process:
                    before_s, start_ns = _cpu_s(process), time.monotonic_ns()
                    time.sleep(turn_s)
                    turn = Turn(sampler=name, round=number, start_ns=start_ns, end_ns=time.monotonic_ns())
                    if process is not None:
                        spent_s = _cpu_s(process) - before_s
                        memory = psutil.Process(process.pid).memory_full_info().pss
                        turn = replace(turn, cpu_s=spent_s, memory_bytes=memory)
                turns.append(turn)
            except UnavailableError as error:
                unavailable[name] = str(error)
    return turns, unavailable


@contextmanager
def running(command: Sequence[str], log: Path, settle_s: float) -> Iterator[subprocess.Popen[bytes] | None]:
    """Run a command until the block ends; yield its process after `settle_s`, None for no command.

    Raises:
        UnavailableError: it did not start, or ended early; the reason is the last line of its log.
    """
    if not command:
        time.sleep(settle_s)
        yield None
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    try:
        with log.open("w") as errors:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
    except OSError as error:
        raise UnavailableError(f"{command[0]}: {error.strerror}") from error
    try:
        time.sleep(settle_s)
        if process.poll() is None:
            yield process
        if process.poll() is not None:
            lines = log.read_text(errors="replace").strip().splitlines()
            raise UnavailableError(lines[-1] if lines else "it exited")
    finally:
        process.kill()
        process.wait()


def _cpu_s(process: subprocess.Popen[bytes] | None) -> float:
    # The id of a process's CPU clock, as computed by clock_getcpuclockid(3).
    return time.clock_gettime((~process.pid << 3) | 2) if process else 0.0


def speed(windows: Sequence[tuple[int, int, int]], start_ns: int, end_ns: int) -> float:
    """Return samples/s over the windows (start, end, samples) within an interval; NaN without any."""
    inside = [window for window in windows if window[0] >= start_ns and window[1] <= end_ns]
    busy_ns = sum(end - start for start, end, _ in inside)
    return sum(samples for _, _, samples in inside) * 1e9 / busy_ns if busy_ns else float("nan")


def table(turns: Sequence[Turn], unavailable: Mapping[str, str]) -> Iterator[str]:
    """Yield a Markdown table with a row for each sampler, compared with NONE in the same round."""
    unsampled = {turn.round: turn.speed for turn in turns if turn.sampler == NONE}
    rows = []
    for name in dict.fromkeys(turn.sampler for turn in turns if turn.sampler != NONE):
        own = [turn for turn in turns if turn.sampler == name]
        loss = estimate(
            [100 * (unsampled[turn.round] / turn.speed - 1) for turn in own if turn.round in unsampled], "%"
        )
        share = median(100e9 * turn.cpu_s / (turn.end_ns - turn.start_ns) for turn in own)
        slowdown = "-" if loss is None else f"{loss.median:+.2f} ({loss.low:+.2f} to {loss.high:+.2f})"
        memory = max(turn.memory_bytes for turn in own) / 2**20
        rows.append((name, slowdown, f"{share:.2f}", f"{memory:.0f}"))
    heads = ("sampler", "slowdown, % (95 % interval)", "own CPU time, % of a core", "memory, MiB")
    yield from markdown(heads, rows)
    yield ""
    yield "Medians over the rounds; peak memory (PSS). Only the sampler's own process is measured, not daemons that"
    yield "work for it, such as Docker Engine for `docker stats`."
    yield from (f"Left out: {name}, {reason.rstrip('.')}." for name, reason in unavailable.items())


if __name__ == "__main__":
    typer.run(main)
