"""What each sampler costs the workload it watches, and itself; and what it sees of a GPU."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import TypeVar

import psutil
import pynvml

from benchmarks.processes import Command, NoSampler, Peer, UnavailableError, cpu_s, memory_bytes
from benchmarks.tables import markdown
from harness.analysis.stats import estimate
from harness.cli.app import paths
from harness.engines import Container
from harness.model.options import Options
from harness.model.run import Gpu
from harness.progress import Silent
from harness.run.prepare import prepare
from harness.run.resolve import resolve
from harness.run.store import TrialFolder, read_outcome
from workloads.protocol import BASELINE, MODEL_ONLY

FOLDER = Path("build/overhead")
# Other people's samplers have an environment of their own, made by `make overhead`.
PEERS_PYTHON = Path("build/compare/bin/python")
TURN_S, WINDOW_S, SETTLE_S = 3.0, 0.25, 0.5
RATE_HZ = 10
# More windows than fit into any benchmark: the container is killed, not waited for.
ENDLESS = 1_000_000
# What shows a sampler's disturbance best: many short steps on the host, or a GPU kept busy.
VARIANTS = {"cifar100-mlp": BASELINE, "resnet50": MODEL_ONLY}
NONE = "none"
MISSING = "-"

T = TypeVar("T")
EnergyCounter = Callable[[], float | None]


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
        cpu_s, memory_bytes: what its processes took.
        counter_j: growth of the GPU's own energy counter, None without one.
        observed: what the sampler reported of the interval.
        speed: samples/s of the workload in the windows inside; NaN until known.
    """

    sampler: str
    round: int
    start_ns: int
    end_ns: int
    cpu_s: float
    memory_bytes: int
    counter_j: float | None
    observed: Mapping[str, float | None] = field(default_factory=dict)
    speed: float = float("nan")

    @property
    def seconds(self) -> float:
        """Its length."""
        return (self.end_ns - self.start_ns) / 1e9


def measure(rounds: int, workload: str, device: str, engine: str) -> Iterator[str]:
    """Yield a Markdown table with a line for each sampler; every turn is written to turns-*.json."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    variant = VARIANTS.get(workload, BASELINE)
    options = Options(
        engine=engine, device=device, workloads=(workload,), variants=variant, trials=1, out=FOLDER / "runs"
    )
    with training(options) as running:
        wait_for_windows(running)
        counter = energy_counter(running.gpu)
        with suppress(TypeError):
            counter()  # its first call takes milliseconds
        turns, unavailable = take_turns(samplers(running), rounds, TURN_S, counter)
        windows = [(one.start_ns, one.end_ns, one.samples) for one in read_outcome(running.folder).windows]
    turns = [replace(turn, speed=speed(windows, turn.start_ns, turn.end_ns)) for turn in turns]
    name = running.gpu.name if running.gpu else f"{psutil.cpu_count()} cores"
    document = {"device": name, "turns": [asdict(turn) for turn in turns], "unavailable": dict(unavailable)}
    (FOLDER / f"turns-{workload}-{device}.json").write_text(json.dumps(document, indent=1), encoding="utf-8")
    yield f"Sampling, {workload} {variant} on {name}, {rounds} interleaved rounds of {TURN_S:g} s:"
    yield ""
    yield from table(turns, unavailable)


@contextmanager
def training(options: Options) -> Iterator[Training]:
    """Yield a container that measures window after window without end."""
    resolved = resolve(options)
    prepared = prepare(resolved, paths(), Silent())
    container: Container | None = None
    try:
        job = prepared.jobs[0]
        folder = prepared.folder.open_trial(
            job.planned, replace(job.spec, windows=ENDLESS, window_s=WINDOW_S)
        )
        container = prepared.engine.start(replace(job.container, out=folder.out))
        gpu = resolved.gpus[job.planned.gpus[0]] if job.planned.gpus else None
        yield Training(container=container, folder=folder, gpu=gpu)
    finally:
        if container is not None:
            container.kill()
            container.remove()
        prepared.engine.close()
        shutil.rmtree(prepared.folder.path, ignore_errors=True)


def samplers(running: Training) -> Mapping[str, NoSampler]:
    """Return who takes turns; the first is nobody."""
    gpu = running.gpu
    arguments = ["--rate-hz", str(RATE_HZ), "--folder", str((FOLDER / "telemetry").absolute())]
    if running.container.pid is not None:
        arguments += ["--pid", str(running.container.pid)]
    if gpu is not None:
        arguments += ["--gpu", str(gpu.index), "--uuid", gpu.mig_uuid or gpu.uuid]
    theirs = str(PEERS_PYTHON.absolute()) if PEERS_PYTHON.exists() else sys.executable

    def peer(module: str, python: str = theirs) -> Peer:
        return Peer(python, module, arguments, FOLDER / "logs" / f"{module}.log")

    found: dict[str, NoSampler] = {NONE: NoSampler(), f"tfbench, {RATE_HZ} Hz": peer("ours", sys.executable)}
    if gpu is not None:
        found |= {f"nvitop, {RATE_HZ} Hz": peer("nvitop"), f"Zeus, {RATE_HZ} Hz": peer("zeus")}
    else:
        docker = Command("docker", "stats", "--format", "{{json .}}", running.container.id)
        found["docker stats, 1 Hz"] = docker
    return {**found, "CodeCarbon, 1 Hz": peer("codecarbon")}


def take_turns(
    everyone: Mapping[str, NoSampler],
    rounds: int,
    turn_s: float,
    counter: EnergyCounter,
    settle_s: float = SETTLE_S,
) -> tuple[list[Turn], Mapping[str, str]]:
    """Let samplers take turns, each round beginning with another; return turns, and who could not and why."""
    unavailable: dict[str, str] = {}
    turns: list[Turn] = []
    try:
        for name, sampler in everyone.items():
            try:
                sampler.load()
            except UnavailableError as error:
                unavailable[name] = str(error)
        for number in range(rounds):
            for name in rotated(list(everyone), number):
                if name not in unavailable:
                    try:
                        turns.append(_turn(name, number, everyone[name], turn_s, counter, settle_s))
                    except UnavailableError as error:
                        unavailable[name] = str(error)
    finally:
        for sampler in everyone.values():
            sampler.close()
    return turns, unavailable


def rotated(everyone: Sequence[T], number: int) -> Sequence[T]:
    """Return the order of a round: each starts with another, so that none always follows the same one."""
    first = number % len(everyone)
    return [*everyone[first:], *everyone[:first]]


def _turn(
    name: str, number: int, sampler: NoSampler, turn_s: float, counter: EnergyCounter, settle_s: float
) -> Turn:
    sampler.start()
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
    observed = sampler.stop()
    time.sleep(settle_s)
    return Turn(
        sampler=name,
        round=number,
        start_ns=start_ns,
        end_ns=end_ns,
        cpu_s=cpu_after_s - cpu_before_s,
        memory_bytes=memory,
        counter_j=None if joules is None or joules_after is None else joules_after - joules,
        observed=observed,
    )


def energy_counter(gpu: Gpu | None) -> EnergyCounter:
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


def table(turns: Sequence[Turn], unavailable: Mapping[str, str]) -> Iterator[str]:
    """Yield a Markdown table with a line for each sampler, each compared with NONE."""
    alone = {turn.round: turn.speed for turn in turns if turn.sampler == NONE}
    on_gpu = any(turn.counter_j is not None for turn in turns)
    heads = ["sampler", "slowdown, % (95 % interval)", "own time, % of a core", "own time, us a sample"]
    heads += ["memory, MiB"]
    if on_gpu:
        heads += ["utilisation seen, %", "energy seen, J", "GPU's counter, J", "off by, %"]
    rows = []
    for name in dict.fromkeys(turn.sampler for turn in turns):
        mine = [turn for turn in turns if turn.sampler == name]
        cost = _cost(mine, alone) if name != NONE else [MISSING] * 4
        rows.append([name, *cost, *(_observations(mine) if on_gpu else [])])
    yield from markdown(heads, rows)
    yield ""
    yield "Medians over the rounds, memory the greatest (PSS), all of the samplers' own processes only:"
    yield "what a daemon does for them, such as the engine for `docker stats`, comes on top."
    yield from (f"Left out: {name}, {why.rstrip('.')}." for name, why in unavailable.items())


def _cost(turns: Sequence[Turn], alone: Mapping[int, float]) -> list[str]:
    ratios = [100 * (alone[turn.round] / turn.speed - 1) for turn in turns if turn.round in alone]
    slow = estimate(ratios, "%")
    share = median(100 * turn.cpu_s / turn.seconds for turn in turns)
    each = [turn.cpu_s * 1e6 / count for turn in turns if (count := turn.observed.get("samples"))]
    return [
        MISSING if slow is None else f"{slow.median:+.2f} ({slow.low:+.2f} to {slow.high:+.2f})",
        f"{share:.2f}",
        f"{median(each):,.0f}" if each else MISSING,
        f"{max(turn.memory_bytes for turn in turns) / 2**20:.0f}",
    ]


def _observations(turns: Sequence[Turn]) -> list[str]:
    off = [
        100 * (joules / turn.counter_j - 1)
        for turn in turns
        if (joules := turn.observed.get("energy_j")) is not None and turn.counter_j
    ]
    util = _median([turn.observed.get("util_pct") for turn in turns], ".1f")
    sm = _median([turn.observed.get("sm_util_pct") for turn in turns], ".1f")
    return [
        util if sm == MISSING else f"{util} (SMs {sm})",
        _median([turn.observed.get("energy_j") for turn in turns], ",.1f"),
        _median([turn.counter_j for turn in turns], ",.1f"),
        f"{median(off):+.2f} ({min(off):+.2f} to {max(off):+.2f})" if off else MISSING,
    ]


def _median(values: Sequence[float | None], form: str) -> str:
    known = [value for value in values if value is not None]
    return format(median(known), form) if known else MISSING
