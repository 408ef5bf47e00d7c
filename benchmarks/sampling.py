"""What each sampler costs the workload it watches, and itself; and what it sees of a GPU."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import psutil
import pynvml

from benchmarks.processes import Command, LeftOutError, Nobody, Peer, Sampler, cpu_s, memory_bytes
from benchmarks.sampling_table import table
from benchmarks.settings import Settings
from benchmarks.trainer import Training, training
from harness.model.run import Gpu
from harness.run.store import read_outcome

WINDOW_S = 0.25
SETTLE_S = 0.5
RATE_HZ = 10
NONE = "none"

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A stretch in which one sampler watched.

    Attributes:
        cpu_s, memory_bytes: what its processes took.
        counter_j: growth of the GPU's own energy counter, None without one.
        seen: what the sampler reported of the stretch.
        speed: samples/s of the workload in the windows inside; NaN until known.
    """

    sampler: str
    round: int
    start_ns: int
    end_ns: int
    cpu_s: float
    memory_bytes: int
    counter_j: float | None
    seen: Mapping[str, float | None] = field(default_factory=dict)
    speed: float = float("nan")

    @property
    def seconds(self) -> float:
        """Its length."""
        return (self.end_ns - self.start_ns) / 1e9


def measure(settings: Settings) -> Sequence[str]:
    """Return a Markdown table with a line for each sampler; every turn is written to work/turns-*.json."""
    settings.work.mkdir(parents=True, exist_ok=True)
    with training(settings, WINDOW_S) as running:
        wait_for_windows(running)
        counter = energy_counter(running.gpu)
        with suppress(TypeError):
            counter()  # its first call takes milliseconds
        turns, left_out = take_turns(samplers(settings, running), settings.rounds, settings.turn_s, counter)
        log = read_outcome(running.folder)
    stretches = [(w.start_ns, w.end_ns, w.samples) for w in log.windows]
    turns = [replace(turn, speed=speed(stretches, turn.start_ns, turn.end_ns)) for turn in turns]
    device = running.gpu.name if running.gpu else f"{psutil.cpu_count()} cores"
    _write(settings.work / f"turns-{settings.workload}-{settings.device}.json", turns, left_out, device)
    title = (
        f"Sampling, {settings.workload} {running.variant} on {device}, {settings.rounds} interleaved rounds"
        f" of {settings.turn_s:g} s:"
    )
    return table(title, turns, left_out, NONE)


def samplers(settings: Settings, running: Training) -> Mapping[str, Sampler]:
    """Return who takes turns; the first is nobody."""
    gpu = running.gpu
    arguments = ["--rate", str(RATE_HZ)]
    if running.container.pid is not None:
        arguments += ["--pid", str(running.container.pid)]
    if gpu is not None:
        arguments += ["--gpu", str(gpu.index), "--uuid", gpu.mig_uuid or gpu.uuid]

    def peer(module: str, python: str) -> Peer:
        folder = (settings.work / "telemetry").absolute()
        log = settings.work / "logs" / f"{module}.log"
        return Peer(python, module, [*arguments, "--folder", str(folder)], log)

    theirs = settings.peers_python
    all_: dict[str, Sampler] = {NONE: Nobody(), f"tfbench, {RATE_HZ} Hz": peer("ours", sys.executable)}
    if gpu is not None:
        all_[f"nvitop, {RATE_HZ} Hz"] = peer("nvitop", theirs)
        all_[f"Zeus, {RATE_HZ} Hz"] = peer("zeus", theirs)
    else:
        all_["docker stats, 1 Hz"] = Command(
            "docker", "stats", "--format", "{{json .}}", running.container.id
        )
    return {**all_, "CodeCarbon, 1 Hz": peer("codecarbon", theirs)}


def take_turns(
    everyone: Mapping[str, Sampler],
    rounds: int,
    turn_s: float,
    counter: Callable[[], float | None],
    settle_s: float = SETTLE_S,
) -> tuple[list[Turn], Mapping[str, str]]:
    """Let samplers take turns, each round beginning with another; return turns, and who could not and why."""
    left_out: dict[str, str] = {}
    turns: list[Turn] = []
    try:
        for name, sampler in everyone.items():
            try:
                sampler.load()
            except LeftOutError as error:
                left_out[name] = str(error)
        for number in range(rounds):
            for name in in_turn(list(everyone), number):
                if name not in left_out:
                    try:
                        turns.append(_turn(name, number, everyone[name], turn_s, counter, settle_s))
                    except LeftOutError as error:
                        left_out[name] = str(error)
    finally:
        for sampler in everyone.values():
            sampler.close()
    return turns, left_out


def in_turn(everyone: Sequence[T], number: int) -> Sequence[T]:
    """Return the order of a round: each starts with another, so that none always follows the same one."""
    first = number % len(everyone)
    return [*everyone[first:], *everyone[:first]]


def _turn(
    name: str,
    number: int,
    sampler: Sampler,
    turn_s: float,
    counter: Callable[[], float | None],
    settle_s: float,
) -> Turn:
    sampler.on()
    time.sleep(settle_s)
    pids = sampler.pids()
    sampler.begin()
    joules = counter()
    cpu_before_s, start_ns = cpu_s(pids), time.monotonic_ns()
    time.sleep(turn_s)
    cpu_after_s, end_ns = cpu_s(pids), time.monotonic_ns()
    joules_after = counter()
    sampler.end()
    memory = memory_bytes(pids)
    seen = sampler.off()
    time.sleep(settle_s)
    return Turn(
        sampler=name,
        round=number,
        start_ns=start_ns,
        end_ns=end_ns,
        cpu_s=cpu_after_s - cpu_before_s,
        memory_bytes=memory,
        counter_j=None if joules is None or joules_after is None else joules_after - joules,
        seen=seen,
    )


def energy_counter(gpu: Gpu | None) -> Callable[[], float | None]:
    """Return a function that reads a GPU's own counter in joules; it gives None where there is none."""
    if gpu is None:
        return lambda: None
    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByUUID(gpu.uuid)

    def read() -> float | None:
        try:
            return float(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)) / 1000
        except pynvml.NVMLError:
            return None

    return read


def wait_for_windows(running: Training) -> None:
    """Wait until the workload is in steady state.

    Raises:
        RuntimeError: it ended instead.
    """
    while not read_outcome(running.folder).windows:
        if running.container.poll() is not None:
            raise RuntimeError(f"the workload ended early: {running.container.log()}")
        time.sleep(0.5)


def speed(windows: Sequence[tuple[int, int, int]], start_ns: int, end_ns: int) -> float:
    """Return samples/s over the windows (start, end, samples) that lie wholly inside; NaN when none does."""
    inside = [window for window in windows if window[0] >= start_ns and window[1] <= end_ns]
    busy_ns = sum(end - start for start, end, _ in inside)
    return sum(samples for _, _, samples in inside) * 1e9 / busy_ns if busy_ns else float("nan")


def _write(path: Path, turns: Sequence[Turn], left_out: Mapping[str, str], device: str) -> None:
    document = {"device": device, "turns": [asdict(turn) for turn in turns], "left_out": dict(left_out)}
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
