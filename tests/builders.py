"""Believable runs for tests: phases, windows, steps and telemetry that agree with each other.

Every builder takes a seed and gives the same Run for the same seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from harness.model import (
    DataInfo,
    EngineInfo,
    Gap,
    Gpu,
    ImageInfo,
    LegInfo,
    Manifest,
    Metric,
    Phase,
    PlannedTrial,
    Run,
    Series,
    Status,
    StepTimes,
    Trial,
    Window,
)
from tests.builders_telemetry import GpuLoad, telemetry
from workloads.protocol import (
    AS_WRITTEN,
    INPUT_ONLY,
    LEGS,
    MODEL_ONLY,
    TUNED,
    Change,
    Data,
    Published,
    Workload,
)

SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LegSpeed:
    """How fast one leg goes; `wait_share` is the share of the time waiting for input, -1 where unseen."""

    step_s: float
    batch: int
    wait_share: float = -1.0
    load: GpuLoad | None = None


CPU_SPEEDS: Mapping[str, LegSpeed] = {
    AS_WRITTEN: LegSpeed(step_s=0.0030, batch=32, wait_share=0.04),
    INPUT_ONLY: LegSpeed(step_s=0.00012, batch=32),
    MODEL_ONLY: LegSpeed(step_s=0.0028, batch=32),
    TUNED: LegSpeed(step_s=0.0160, batch=512, wait_share=0.01),
}
# A launch-bound card: slower than the processor as written, at 2 % utilisation; many times faster tuned.
LAUNCH_BOUND: Mapping[str, LegSpeed] = {
    AS_WRITTEN: LegSpeed(step_s=0.0056, batch=32, wait_share=0.02, load=GpuLoad(util=2, power_w=125)),
    INPUT_ONLY: LegSpeed(step_s=0.00012, batch=32, load=GpuLoad(util=0, power_w=118)),
    MODEL_ONLY: LegSpeed(step_s=0.0053, batch=32, load=GpuLoad(util=2, power_w=125)),
    TUNED: LegSpeed(step_s=0.0009, batch=32, wait_share=0.03, load=GpuLoad(util=14, power_w=150)),
}
COMPUTE_BOUND: Mapping[str, LegSpeed] = {
    AS_WRITTEN: LegSpeed(step_s=0.2900, batch=256, wait_share=0.01, load=GpuLoad(util=99, power_w=640)),
    INPUT_ONLY: LegSpeed(step_s=0.0100, batch=256, load=GpuLoad(util=0, power_w=120)),
    MODEL_ONLY: LegSpeed(step_s=0.2860, batch=256, load=GpuLoad(util=99, power_w=640)),
    TUNED: LegSpeed(step_s=0.0357, batch=256, wait_share=0.01, load=GpuLoad(util=98, power_w=670)),
}
INPUT_BOUND: Mapping[str, LegSpeed] = {
    AS_WRITTEN: LegSpeed(step_s=0.0440, batch=32, wait_share=0.88, load=GpuLoad(util=9, power_w=130)),
    INPUT_ONLY: LegSpeed(step_s=0.0425, batch=32, load=GpuLoad(util=0, power_w=118)),
    MODEL_ONLY: LegSpeed(step_s=0.0048, batch=32, load=GpuLoad(util=61, power_w=260)),
    TUNED: LegSpeed(step_s=0.0120, batch=32, wait_share=0.55, load=GpuLoad(util=34, power_w=190)),
}


def workload(name: str = "cifar100-mlp", *, min_accuracy: float = 0.2) -> Workload:
    """Declare the published CIFAR-100 MLP under `name`."""
    return Workload(
        name=name,
        title="CIFAR-100, multilayer perceptron 512-256-100",
        data=Data(name="cifar100", shape=(32, 32, 3), classes=100, train=50_000, test=10_000),
        batch_size=32,
        epochs=100,
        model="Flatten, Dense 512 relu, Dense 256 relu, Dense 100 softmax",
        optimizer="Adam",
        loss="categorical cross-entropy",
        tuned={"gpu:steps_per_execution": 50, "gpu:jit_compile": True, "cpu:batch_size": 512},
        published=(
            Published(
                source="Azure blog, 2023", system="NC4as T4 v3, 4 vCPU", device="cpu", value=1075, unit="s"
            ),
            Published(source="Azure blog, 2023", system="NC4as T4 v3, T4", device="gpu", value=343, unit="s"),
            Published(source="Azure blog, 2023", system="NC4as T4 v3", device="gpu", value=3.1, unit="ratio"),
        ),
        source="Azure blog, 2023",
        min_accuracy=min_accuracy,
    )


def gpu(index: int = 0) -> Gpu:
    """Describe an H200 at `index`."""
    return Gpu(
        index=index,
        uuid=f"GPU-00000000-0000-0000-0000-{index:012d}",
        name="NVIDIA H200",
        memory_bytes=150_754_820_096,
        driver_version="580.95.05",
        cuda_version="13.0",
        compute_capability="9.0",
        power_limit_w=700.0,
        power_default_limit_w=700.0,
        ecc_enabled=True,
        mig_enabled=False,
        persistence_mode=True,
        pcie_gen=5,
        pcie_width=16,
        clock_max_sm_mhz=1980,
        clock_max_mem_mhz=3201,
        vbios="96.00.A5.00.01",
    )


def manifest(*, gpus: int = 0, workloads: tuple[str, ...] = ("cifar100-mlp",), seed: int = 1) -> Manifest:
    """Describe a quiet 16-core machine with `gpus` cards."""
    cards = tuple(gpu(index) for index in range(gpus))
    return Manifest(
        run_id=f"20260102-030405-{seed:04x}",
        created="2026-01-02T03:04:05+00:00",
        tfbench_version="0.1.0",
        commit="0123456789abcdef0123456789abcdef01234567",
        command="tfbench bench --profile quick --workload cifar100-mlp",
        engine=EngineInfo(
            name="docker", version="28.3.1", isolated=True, rootless=False, cgroup_version=2,
            gpu_access="toolkit" if gpus else "",
        ),
        images=(
            ImageInfo(
                target="cuda" if gpus else "cpu", reference="tfbench:cpu-0f1e2d3c4b5a",
                digest="sha256:" + "ab" * 32,
                base="python:3.13-slim-trixie@sha256:" + "cd" * 32, lock_sha256="ef" * 32,
            ),
        ),
        data=tuple(
            DataInfo(workload=name, name="cifar100", kind="real", sha256="12" * 32, why="found in the cache")
            for name in workloads
        ),
        gpus=cards,
        system={
            "system_name": "example host", "host_processor_model_name": "AMD EPYC 9354",
            "host_processor_core_count": "16", "host_processor_vcpu_count": "16",
            "host_memory_capacity": "125.8 GiB", "accelerators_per_node": str(gpus),
            "accelerator_model_name": cards[0].name if cards else "", "framework": "TensorFlow 2.21.0",
            "operating_system": "Debian GNU/Linux 13 (trixie)", "cooling": "",
        },
        host_facts={"kernel": "6.12.0", "cpu_governor": "performance", "turbo": True,
                    "smt": True, "load_1min": 0.2},
        parameters={"profile": "quick", "window_s": 1.0, "windows": 3, "trials_min": 3, "trials_max": 5},
        seed=seed,
    )  # fmt: skip


def trial(
    name: str = "cifar100-mlp",
    device: str = "cpu",
    index: int = 0,
    *,
    speeds: Mapping[str, LegSpeed] = CPU_SPEEDS,
    seed: int = 0,
    start_ns: int = 1_000 * SECOND_NS,
    windows: int = 3,
    window_s: float = 1.0,
    noise: float = 0.02,
    accuracy: float = 0.24,
    interval_s: float = 0.1,
) -> Trial:
    """Play one trial: cold start, the legs interleaved window by window, an evaluation, and its telemetry."""
    random = np.random.default_rng((seed, index, len(device), sum(map(ord, device + name))))
    pace = float(np.exp(random.normal(0.0, noise)))
    now = start_ns + 300_000_000
    phases: list[Phase] = []
    measured: list[Window] = []
    steps: list[StepTimes] = []

    def phase(kind: str, leg: str, seconds: float) -> None:
        nonlocal now
        end = now + int(seconds * SECOND_NS)
        phases.append(Phase(name=kind, leg=leg, start_ns=now, end_ns=end))
        now = end

    on_gpu = device != "cpu"
    phase("import", "", 3.1 if on_gpu else 2.0)
    phase("data", "", 0.6)
    for leg in speeds:
        phase("build", leg, 0.15)
        phase("first-step", leg, 1.8 if on_gpu and leg != INPUT_ONLY else 0.5)
        phase("warm-up", leg, 0.4)
    for number in range(windows):
        for leg, speed in speeds.items():
            step_ns = _step_ns(random, speed.step_s * pace, window_s, noise)
            wait_ns = (step_ns * max(speed.wait_share, 0.0)).astype(np.int64)
            begin, length = now, int(step_ns.sum())
            phases.append(Phase(name="steady", leg=leg, start_ns=begin, end_ns=begin + length))
            measured.append(
                Window(
                    leg=leg, index=number, start_ns=begin, end_ns=begin + length, steps=len(step_ns),
                    samples=len(step_ns) * speed.batch,
                    wait_ns=int(wait_ns.sum()) if speed.wait_share >= 0 else -1,
                )
            )  # fmt: skip
            steps.append(StepTimes(leg=leg, window=number, step_ns=step_ns, wait_ns=wait_ns))
            now = begin + length + 20_000_000
    phase("evaluate", AS_WRITTEN, 0.7)
    ended = now + 400_000_000
    loads = {leg: speed.load for leg, speed in speeds.items()}
    return Trial(
        id=f"{name}-{device}-{index}",
        workload=name,
        device=device,
        index=index,
        legs=tuple(_leg_info(leg, speed, on_gpu) for leg, speed in speeds.items()),
        status=Status.OK,
        exit_code=0,
        message="",
        started_ns=start_ns,
        ended_ns=ended,
        facts={"tensorflow": "2.21.0", "python": "3.13.5", "gpus": device.count("gpu"), "threads": 16,
               "clock_offset_ns": 1200},
        phases=tuple(phases),
        windows=tuple(measured),
        steps=tuple(steps),
        metrics=(Metric(leg=AS_WRITTEN, name="accuracy", value=accuracy, unit="share"),),
        telemetry=telemetry(random, device, start_ns, ended, tuple(measured), loads, interval_s),
        sampling={"ticks": (ended - start_ns) / (interval_s * SECOND_NS), "missed_ticks": 0.0, "cpu_s": 0.05},
    )  # fmt: skip


def _step_ns(random: np.random.Generator, step_s: float, window_s: float, noise: float) -> NDArray[np.int64]:
    count = max(2, int(window_s / step_s))
    return (step_s * SECOND_NS * np.exp(random.normal(0.0, noise * 2, count))).astype(np.int64)


def _leg_info(leg: str, speed: LegSpeed, on_gpu: bool) -> LegInfo:
    params: dict[str, object] = {"batch_size": speed.batch, "steps_per_execution": 1, "jit_compile": False}
    changes: tuple[Change, ...] = ()
    if leg == TUNED and on_gpu:
        params |= {"steps_per_execution": 50, "jit_compile": True}
        changes = (
            Change(
                what="steps_per_execution", before="1", after="50", why="one launch from Python for 50 steps"
            ),
            Change(what="jit_compile", before="False", after="True", why="XLA fuses small kernels"),
        )
    elif leg == TUNED:
        changes = (Change(what="batch_size", before="32", after=str(speed.batch), why="more work a step"),)
    return LegInfo(leg=leg, params=params, changes=changes)


def run(
    devices: Mapping[str, Mapping[str, LegSpeed]],
    *,
    name: str = "cifar100-mlp",
    trials: int = 5,
    seed: int = 1,
    min_accuracy: float = 0.2,
    noise: float = 0.02,
    windows: int = 3,
    window_s: float = 1.0,
) -> Run:
    """Play `trials` trials of one workload on every device, interleaved as the runner does."""
    played: list[Trial] = []
    now = 1_000 * SECOND_NS
    for index in range(trials):
        for device, speeds in devices.items():
            played.append(
                trial(name, device, index, speeds=speeds, seed=seed, start_ns=now, noise=noise,
                      windows=windows, window_s=window_s)
            )  # fmt: skip
            now = played[-1].ended_ns + SECOND_NS
    cards = max((device.count("gpu") for device in devices), default=0)
    planned = tuple(
        PlannedTrial(id=each.id, workload=each.workload, device=each.device, index=each.index, legs=LEGS)
        for each in played
    )
    return Run(
        manifest=manifest(gpus=cards, workloads=(name,), seed=seed),
        workloads=(workload(name, min_accuracy=min_accuracy),),
        planned=planned,
        trials=tuple(played),
    )


def cpu_run(*, seed: int = 1, trials: int = 5) -> Run:
    """Give a run on a machine without a GPU."""
    return run({"cpu": CPU_SPEEDS}, seed=seed, trials=trials)


def gpu_run(*, seed: int = 1, trials: int = 5, speeds: Mapping[str, LegSpeed] = LAUNCH_BOUND) -> Run:
    """Give a run on the processor and one H200 with NVML telemetry; launch-bound unless told otherwise."""
    return run({"cpu": CPU_SPEEDS, "gpu0": speeds}, seed=seed, trials=trials)


def four_gpu_run(*, seed: int = 1, trials: int = 3) -> Run:
    """Give a compute-bound run on the processor and on one, two and four cards, at 95 and 90 % efficiency."""
    devices: dict[str, Mapping[str, LegSpeed]] = {"cpu": CPU_SPEEDS}
    for cards, efficiency in ((1, 1.0), (2, 0.95), (4, 0.90)):
        devices["+".join(f"gpu{index}" for index in range(cards))] = {
            leg: replace(speed, step_s=speed.step_s / efficiency, batch=speed.batch * cards)
            for leg, speed in COMPUTE_BOUND.items()
        }
    return run(devices, name="resnet50", seed=seed, trials=trials)


def interrupted_run(*, seed: int = 1) -> Run:
    """Give a run stopped by Ctrl-C: the fourth of ten trials was cut short, six never began."""
    whole = gpu_run(seed=seed)
    cut = whole.trials[3]
    middle = cut.started_ns + (cut.ended_ns - cut.started_ns) // 2
    cut = replace(
        cut,
        status=Status.INTERRUPTED,
        exit_code=None,
        message="Interrupted while measuring.",
        ended_ns=middle,
        phases=tuple(each for each in cut.phases if each.end_ns <= middle),
        windows=tuple(each for each in cut.windows if each.end_ns <= middle),
        steps=(),
        metrics=(),
        telemetry=tuple(until(series, middle) for series in cut.telemetry),
    )
    return replace(whole, trials=(*whole.trials[:3], cut))


def until(series: Series, end_ns: int) -> Series:
    """Cut a series off at `end_ns`."""
    keep = series.t_ns <= end_ns
    columns = {name: values[keep] for name, values in series.columns.items()}
    return replace(series, t_ns=series.t_ns[keep], columns=columns)


def bare_run(*, seed: int = 1) -> Run:
    """Give a run in which everything that may be missing is: no telemetry, no steps, no metrics, no facts."""
    whole = gpu_run(seed=seed, trials=1)
    trials = tuple(
        replace(
            each, facts={}, phases=(), steps=(), metrics=(), telemetry=(), sampling={}, legs=(),
            windows=tuple(replace(window, wait_ns=-1) for window in each.windows),
            gaps=(Gap(source="nvml", device="gpu0", metric="*", start_ns=each.started_ns,
                      end_ns=each.ended_ns, reason="NVML is not installed"),),
        )
        for each in whole.trials
    )  # fmt: skip
    bare = replace(whole.manifest, images=(), data=(), gpus=(), system={}, host_facts={}, parameters={})
    return replace(whole, manifest=bare, trials=trials)


def empty_run() -> Run:
    """Give a run that was stopped before any trial ended."""
    return replace(cpu_run(trials=1), trials=())


def failed_run(*, seed: int = 1) -> Run:
    """Give a run in which every GPU trial failed because TensorFlow registered no GPU."""
    whole = gpu_run(seed=seed, trials=3)
    trials = tuple(
        replace(each, status=Status.NO_GPU, exit_code=3, message="TensorFlow registered 0 of 1 GPUs.",
                phases=(), windows=(), steps=(), metrics=())
        if each.device != "cpu" else each
        for each in whole.trials
    )  # fmt: skip
    return replace(whole, trials=trials)


HOSTILE = "<script>alert(1)</script>\"'&</style>{{7*7}}\u202e"


def hostile_run(*, seed: int = 1) -> Run:
    """Give a run in which every name and text that comes from outside tries to break out of a page."""
    whole = gpu_run(seed=seed, trials=2)
    trials = tuple(
        replace(
            each, workload=HOSTILE, id=f"{HOSTILE}-{each.id}", message=HOSTILE, warnings=(HOSTILE,),
            facts={HOSTILE: HOSTILE},
            legs=tuple(
                replace(leg, changes=(Change(what=HOSTILE, before=HOSTILE, after=HOSTILE, why=HOSTILE),))
                for leg in each.legs
            ),
            gaps=(Gap(source="nvml", device="gpu0", metric="*", start_ns=each.started_ns,
                      end_ns=each.ended_ns, reason=HOSTILE),),
        )
        for each in whole.trials
    )  # fmt: skip
    declared = replace(
        whole.workloads[0], name=HOSTILE, title=HOSTILE, model=HOSTILE, source=HOSTILE,
        published=(Published(source=HOSTILE, system=HOSTILE, device="gpu", value=343, unit="s",
                             note=HOSTILE),),
    )  # fmt: skip
    marked = replace(
        whole.manifest, command=HOSTILE, commit=HOSTILE, warnings=(HOSTILE,),
        system=dict.fromkeys(whole.manifest.system, HOSTILE), host_facts={HOSTILE: HOSTILE},
        gpus=tuple(replace(card, name=HOSTILE) for card in whole.manifest.gpus),
        data=(DataInfo(workload=HOSTILE, name=HOSTILE, kind="procedural", sha256="", why=HOSTILE),),
    )  # fmt: skip
    planned = tuple(replace(each, workload=HOSTILE, id=f"{HOSTILE}-{each.id}") for each in whole.planned)
    return Run(manifest=marked, workloads=(declared,), planned=planned, trials=trials)


def long_run(*, seed: int = 1, seconds: int = 3600, gpus: int = 8) -> Run:
    """Give one trial of an hour on eight cards, sampled at 10 Hz."""
    device = "+".join(f"gpu{index}" for index in range(gpus))
    name = "resnet50"
    legs = len(COMPUTE_BOUND)
    windows = max(1, int((seconds - 20) / (legs * 10.03)))
    played = trial(name, device, speeds=COMPUTE_BOUND, seed=seed, windows=windows, window_s=10.0)
    planned = (PlannedTrial(id=played.id, workload=name, device=device, index=0, legs=LEGS),)
    return Run(
        manifest=manifest(gpus=gpus, workloads=(name,), seed=seed),
        workloads=(workload(name),),
        planned=planned,
        trials=(played,),
    )
