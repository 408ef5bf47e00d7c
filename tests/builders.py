"""Believable runs for tests: phases, windows, steps and telemetry that agree with each other.

Every builder takes a seed and gives the same Run for the same seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from harness.model.run import DataInfo, Gap, PlannedTrial, Run, Series, Status, Trial
from tests.builders_parts import (
    COMPUTE_BOUND,
    CPU_RESNET,
    CPU_SPEEDS,
    INPUT_BOUND,
    LAUNCH_BOUND,
    VariantSpeed,
    gpu,
    manifest,
    trial,
    workload,
)
from tests.builders_telemetry import SECOND_NS, GpuLoad
from workloads.protocol import VARIANTS, Change, Published

__all__ = [
    "COMPUTE_BOUND", "CPU_RESNET", "CPU_SPEEDS", "HOSTILE", "INPUT_BOUND", "LAUNCH_BOUND", "GpuLoad",
    "VariantSpeed",
    "bare_run", "cpu_run", "empty_run", "failed_run", "four_gpu_run", "gpu", "gpu_run", "hostile_run",
    "interrupted_run", "long_run", "manifest", "run", "trial", "until", "workload",
]  # fmt: skip


def run(
    devices: Mapping[str, Mapping[str, VariantSpeed]],
    *,
    name: str = "cifar100-mlp",
    trials: int = 5,
    seed: int = 1,
    min_accuracy: float = 0.2,
    accuracy: float = 0.24,
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
                      accuracy=accuracy, windows=windows, window_s=window_s)
            )  # fmt: skip
            now = played[-1].ended_ns + SECOND_NS
    count = max((device.count("gpu") for device in devices), default=0)
    planned = tuple(
        PlannedTrial(
            id=each.id, workload=each.workload, device=each.device, index=each.index, variants=VARIANTS
        )
        for each in played
    )
    return Run(
        manifest=manifest(gpus=count, workloads=(name,), seed=seed),
        workloads=(workload(name, min_accuracy=min_accuracy),),
        planned=planned,
        trials=tuple(played),
    )


def cpu_run(*, seed: int = 1, trials: int = 5) -> Run:
    """Give a run on a machine without a GPU."""
    return run({"cpu": CPU_SPEEDS}, seed=seed, trials=trials)


def gpu_run(*, seed: int = 1, trials: int = 5, speeds: Mapping[str, VariantSpeed] = LAUNCH_BOUND) -> Run:
    """Give a run on the CPU and one H200 with NVML telemetry; launch-bound unless told otherwise."""
    return run({"cpu": CPU_SPEEDS, "gpu0": speeds}, seed=seed, trials=trials)


def four_gpu_run(*, seed: int = 1, trials: int = 3) -> Run:
    """Give a compute-bound run on the CPU and on one, two and four GPUs, at 95 and 90 % efficiency."""
    devices: dict[str, Mapping[str, VariantSpeed]] = {"cpu": CPU_RESNET}
    for count, efficiency in ((1, 1.0), (2, 0.95), (4, 0.90)):
        devices["+".join(f"gpu{index}" for index in range(count))] = {
            variant: replace(speed, step_s=speed.step_s / efficiency, batch=speed.batch * count)
            for variant, speed in COMPUTE_BOUND.items()
        }
    return run(devices, name="resnet50", seed=seed, trials=trials, min_accuracy=0.0, accuracy=0.0)


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
            each, facts={}, phases=(), steps=(), metrics=(), telemetry=(), sampling={}, variants=(),
            windows=tuple(replace(window, wait_ns=-1) for window in each.windows),
            gaps=(Gap(source="nvml", device="gpu0", metric="*", start_ns=each.started_ns,
                      end_ns=each.ended_ns, reason="NVML is not installed"),),
        )
        for each in whole.trials
    )  # fmt: skip
    bare = replace(whole.manifest, images=(), data=(), gpus=(), system={}, host_facts={})
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
            variants=tuple(
                replace(variant, changes=(Change(what=HOSTILE, before=HOSTILE, after=HOSTILE),))
                for variant in each.variants
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
        whole.manifest, command=HOSTILE, commit=HOSTILE,
        system=dict.fromkeys(whole.manifest.system, HOSTILE), host_facts={HOSTILE: HOSTILE},
        gpus=tuple(replace(gpu, name=HOSTILE) for gpu in whole.manifest.gpus),
        data=(DataInfo(workload=HOSTILE, name=HOSTILE, kind="procedural", sha256="", why=HOSTILE),),
    )  # fmt: skip
    planned = tuple(replace(each, workload=HOSTILE, id=f"{HOSTILE}-{each.id}") for each in whole.planned)
    return Run(manifest=marked, workloads=(declared,), planned=planned, trials=trials)


def long_run(*, seed: int = 1, seconds: int = 3600, gpus: int = 8) -> Run:
    """Give one trial of an hour on eight GPUs, sampled at 10 Hz."""
    device = "+".join(f"gpu{index}" for index in range(gpus))
    name = "resnet50"
    variants = len(COMPUTE_BOUND)
    windows = max(1, int((seconds - 20) / (variants * 10.03)))
    played = trial(
        name, device, speeds=COMPUTE_BOUND, seed=seed, windows=windows, window_s=10.0, accuracy=0.0
    )
    planned = (PlannedTrial(id=played.id, workload=name, device=device, index=0, variants=VARIANTS),)
    return Run(
        manifest=manifest(gpus=gpus, workloads=(name,), seed=seed),
        workloads=(workload(name),),
        planned=planned,
        trials=(played,),
    )
