"""Simulated runs for tests, with consistent phases, windows, steps and telemetry.

Runs are reproducible: equal seeds give equal runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.defaults import PROFILES, Profile
from harness.engines import ContainerSpec
from harness.model.platform import EngineInfo, Gpu, ImageInfo
from harness.model.run import (
    DataInfo,
    Manifest,
    Metric,
    Options,
    Phase,
    PlannedTrial,
    Run,
    Status,
    StepTimes,
    TelemetryGap,
    Trial,
    VariantInfo,
    Window,
)
from harness.model.workload import Data, Published, Workload
from harness.run.runner import Job
from harness.run.trial_container import spec_for
from tests.builders_telemetry import CPUS, SECOND_NS, GpuLoad, telemetry
from workloads.protocol import ACCURACY, SAMPLES_TRAINED, Change
from workloads.variants import BASELINE, INPUT_ONLY, MODEL_ONLY, TUNED

MEASURED = (BASELINE, INPUT_ONLY, MODEL_ONLY, TUNED)


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantSpeed:
    """Simulated speed of a variant; `wait_share` is the share of time waiting, -1 if not observable."""

    step_s: float
    batch: int
    wait_share: float = -1.0
    load: GpuLoad | None = None


BUSY_GPU = GpuLoad(util=95, power_w=300)


def taking(milliseconds: float, **more: object) -> VariantSpeed:
    """Return the speed of a busy GPU with batches of 32."""
    return VariantSpeed(step_s=milliseconds / 1e3, batch=32, load=BUSY_GPU, **more)


CPU_SPEEDS: Mapping[str, VariantSpeed] = {
    BASELINE: VariantSpeed(step_s=0.0030, batch=32, wait_share=0.04),
    INPUT_ONLY: VariantSpeed(step_s=0.00012, batch=32),
    MODEL_ONLY: VariantSpeed(step_s=0.0028, batch=32),
    TUNED: VariantSpeed(step_s=0.0160, batch=512, wait_share=0.01),
}
CPU_RESNET: Mapping[str, VariantSpeed] = {
    BASELINE: VariantSpeed(step_s=0.530, batch=32, wait_share=0.01),
    INPUT_ONLY: VariantSpeed(step_s=0.010, batch=32),
    MODEL_ONLY: VariantSpeed(step_s=0.520, batch=32),
    TUNED: VariantSpeed(step_s=0.480, batch=32, wait_share=0.01),
}
# A launch-bound GPU: slower than the CPU baseline, at 2 % utilisation; many times faster tuned.
LAUNCH_BOUND: Mapping[str, VariantSpeed] = {
    BASELINE: VariantSpeed(step_s=0.0056, batch=32, wait_share=0.02, load=GpuLoad(util=2, power_w=125)),
    INPUT_ONLY: VariantSpeed(step_s=0.00012, batch=32, load=GpuLoad(util=0, power_w=118)),
    MODEL_ONLY: VariantSpeed(step_s=0.0053, batch=32, load=GpuLoad(util=2, power_w=125)),
    TUNED: VariantSpeed(step_s=0.0009, batch=32, wait_share=0.03, load=GpuLoad(util=14, power_w=150)),
}
COMPUTE_BOUND: Mapping[str, VariantSpeed] = {
    BASELINE: VariantSpeed(step_s=0.2900, batch=256, wait_share=0.01, load=GpuLoad(util=99, power_w=640)),
    INPUT_ONLY: VariantSpeed(step_s=0.0100, batch=256, load=GpuLoad(util=0, power_w=120)),
    MODEL_ONLY: VariantSpeed(step_s=0.2860, batch=256, load=GpuLoad(util=99, power_w=640)),
    TUNED: VariantSpeed(step_s=0.0357, batch=256, wait_share=0.01, load=GpuLoad(util=98, power_w=670)),
}


CIFAR100 = Data(name="cifar100", shape=(32, 32, 3), classes=100, train=50_000, test=10_000)


def workload(name: str = "cifar100-mlp", *, min_accuracy: float = 0.2) -> Workload:
    """Return the declaration of the published CIFAR-100 MLP under `name`, or of ResNet-50 for "resnet50"."""
    if name == "resnet50":
        return Workload(
            name=name,
            title="ResNet-50 training on synthetic images",
            file="published.py",
            published=(
                Published(source="NVIDIA, 2020", system="one A100-40, TF32", device="gpu", value=909,
                          unit="samples/s", note="TensorFlow 1"),
            ),
            source="He et al., 2015",
        )  # fmt: skip
    return Workload(
        name=name,
        title="CIFAR-100, multilayer perceptron 512-256-100",
        file="published.py",
        datasets=(CIFAR100,),
        params={"BATCH_SIZE": 32, "EPOCHS": 100},
        tuned="tuned.py",
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


def small_workload(name: str = "mlp", text: str = "", **changes: object) -> Workload:
    """Return the workload of a script with this text, tuned by a second one."""
    file = f"{name}.py"
    plain = Workload(name=name, file=file, scripts={file: text, "tuned.py": text}, tuned="tuned.py")
    return replace(plain, **changes)


def gpu(index: int = 0) -> Gpu:
    return Gpu(
        index=index, uuid=f"GPU-00000000-0000-0000-0000-{index:012d}", name="NVIDIA H200", memory_bytes=150_754_820_096,
        driver_version="580.95.05", cuda_version="13.0", compute_capability="9.0", power_limit_w=700.0,
        power_default_limit_w=700.0, ecc_enabled=True, mig_enabled=False, pcie_gen=5, pcie_width=16,
        clock_max_sm_mhz=1980, clock_max_mem_mhz=3201,
    )  # fmt: skip


def image(reference: str = "tfbench:cpu-x") -> ImageInfo:
    return ImageInfo(target="cpu", reference=reference, digest="", base="", lock_sha256="")


def container_spec(**changes: object) -> ContainerSpec:
    """Return the specification of a container that does nothing."""
    plain = ContainerSpec(
        image=image(), command=("true",), environment={}, out=Path("/out"), mounts=(), trial_id="a-trial", run_id="run"
    )  # fmt: skip
    return replace(plain, **changes)


def jobs(
    planned: Sequence[PlannedTrial], workload: Workload, profile: Profile, **container: object
) -> tuple[Job, ...]:
    """Return the jobs of these trials, in containers like `container_spec(**container)`."""
    return tuple(
        Job(
            planned=each,
            spec=spec_for(each, workload, profile, Options(), folder="/script", data={}),
            container=container_spec(**container, trial_id=each.id),
        )
        for each in planned
    )


def manifest(*, gpus: int = 0, workloads: tuple[str, ...] = ("cifar100-mlp",), seed: int = 1) -> Manifest:
    """Return the manifest of a run on an idle 16-core machine with `gpus` GPUs."""
    installed = tuple(gpu(index) for index in range(gpus))
    return Manifest(
        run_id=f"20260102-030405-{seed:04x}",
        created="2026-01-02T03:04:05+00:00",
        tfbench_version="0.1.0",
        commit="0123456789abcdef0123456789abcdef01234567",
        command="tfbench bench --profile quick cifar100-mlp",
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
        gpus=installed,
        system={
            "system_name": "example host", "host_processor_model_name": "AMD EPYC 9354",
            "host_processor_core_count": "16", "host_processor_vcpu_count": "16",
            "host_memory_capacity": "125.8 GiB",
            "operating_system": "Debian GNU/Linux 13 (trixie)", "cooling": "",
        },
        host_facts={"kernel": "6.12.0", "cpu_governor": "performance", "turbo": True, "cpus": 16,
                    "smt": True},
        options=Options(seed=seed),
        profile=PROFILES["quick"],
    )  # fmt: skip


def learned(accuracy: float) -> tuple[Metric, ...]:
    """Return the metrics of a baseline with this accuracy after several epochs."""
    values = {ACCURACY: accuracy, SAMPLES_TRAINED: 5e6}
    return tuple(Metric(variant=BASELINE, name=name, value=value) for name, value in values.items())


def trial(
    name: str = "cifar100-mlp",
    device: str = "cpu",
    index: int = 0,
    *,
    speeds: Mapping[str, VariantSpeed] = CPU_SPEEDS,
    seed: int = 0,
    start_ns: int = 1_000 * SECOND_NS,
    windows: int = 3,
    window_s: float = 1.0,
    noise: float = 0.02,
    accuracy: float = 0.24,
) -> Trial:
    """Simulate one trial: cold start, each variant in turn, an evaluation and telemetry."""
    random = np.random.default_rng((seed, index, len(device), sum(map(ord, device + name))))
    pace = float(np.exp(random.normal(0.0, noise)))
    now = start_ns + 300_000_000
    phases: list[Phase] = []
    measured: list[Window] = []
    steps: list[StepTimes] = []

    def phase(kind: str, variant: str, seconds: float) -> None:
        nonlocal now
        end = now + int(seconds * SECOND_NS)
        phases.append(Phase(name=kind, variant=variant, start_ns=now, end_ns=end))
        now = end

    on_gpu = device != "cpu"
    phase("import", "", 3.1 if on_gpu else 2.0)
    phase("data", "", 0.6)
    for variant, speed in speeds.items():
        phase("build", variant, 0.15)
        phase("first-step", variant, 1.8 if on_gpu and variant != INPUT_ONLY else 0.5)
        phase("warm-up", variant, 0.4)
        for number in range(windows):
            step_ns = _step_ns(random, speed.step_s * pace, window_s, noise)
            wait_ns = (step_ns * max(speed.wait_share, 0.0)).astype(np.int64)
            begin, length = now, int(step_ns.sum())
            phases.append(Phase(name="steady", variant=variant, start_ns=begin, end_ns=begin + length))
            measured.append(
                Window(
                    variant=variant, index=number, start_ns=begin, end_ns=begin + length, steps=len(step_ns),
                    samples=len(step_ns) * speed.batch,
                    wait_ns=int(wait_ns.sum()) if speed.wait_share >= 0 else -1,
                )
            )  # fmt: skip
            steps.append(StepTimes(variant=variant, window=number, step_ns=step_ns))
            now = begin + length
    phase("evaluate", BASELINE, 0.7)
    ended = now + 400_000_000
    loads = {variant: speed.load for variant, speed in speeds.items()}
    return Trial(
        id=f"{name}-{device}-{index}", workload=name, device=device, index=index, status=Status.OK, exit_code=0,
        message="", started_ns=start_ns, ended_ns=ended,
        variants=tuple(_variant_info(variant, speed, on_gpu, name) for variant, speed in speeds.items()),
        facts={"tensorflow": "2.21.0", "python": "3.13.5", "gpus_registered": device.count("gpu"),
               "cpus_visible": CPUS},
        phases=tuple(phases), windows=tuple(measured), steps=tuple(steps),
        metrics=learned(accuracy) if accuracy else (),
        telemetry=telemetry(random, device, start_ns, ended, tuple(measured), loads),
        sampling={"ticks": (ended - start_ns) / (0.1 * SECOND_NS), "missed_ticks": 0.0, "cpu_s": 0.05},
    )  # fmt: skip


def _step_ns(random: np.random.Generator, step_s: float, window_s: float, noise: float) -> NDArray[np.int64]:
    count = max(2, int(window_s / step_s))
    return (step_s * SECOND_NS * np.exp(random.normal(0.0, noise * 2, count))).astype(np.int64)


def _variant_info(variant: str, speed: VariantSpeed, on_gpu: bool, name: str) -> VariantInfo:
    params: dict[str, object] = {
        "batch_size": speed.batch, "epochs": 100, "samples_per_epoch": 0 if name == "resnet50" else 50_000,
        "steps_per_call": 1, "jit_compile": False,
    }  # fmt: skip
    changes: tuple[Change, ...] = ()
    if variant == TUNED and on_gpu:
        params |= {"steps_per_call": 50, "jit_compile": True}
        changes = (
            Change(what="steps_per_call", before="1", after="50"),
            Change(what="jit_compile", before="False", after="True"),
        )
    elif variant == TUNED:
        changes = (Change(what="batch_size", before="32", after=str(speed.batch)),)
    return VariantInfo(variant=variant, params=params, changes=changes)


def run(
    devices: Mapping[str, Mapping[str, VariantSpeed]],
    *,
    name: str = "cifar100-mlp",
    trials: int = 5,
    seed: int = 1,
    min_accuracy: float = 0.2,
    **simulation: float,
) -> Run:
    """Simulate `trials` trials of one workload on each device, interleaved like the runner's."""
    played: list[Trial] = []
    now = 1_000 * SECOND_NS
    for index in range(trials):
        for device, speeds in devices.items():
            played.append(trial(name, device, index, speeds=speeds, seed=seed, start_ns=now, **simulation))
            now = played[-1].ended_ns + SECOND_NS
    count = max((device.count("gpu") for device in devices), default=0)
    planned = tuple(
        PlannedTrial(
            id=each.id, workload=each.workload, device=each.device, index=each.index, variants=MEASURED
        )
        for each in played
    )
    return Run(
        manifest=manifest(gpus=count, workloads=(name,), seed=seed),
        workloads=(workload(name, min_accuracy=min_accuracy),),
        planned=planned,
        trials=tuple(played),
    )


def cpu_run(*, trials: int = 5) -> Run:
    """Return a run on a machine without a GPU."""
    return run({"cpu": CPU_SPEEDS}, trials=trials)


def gpu_run(*, trials: int = 5) -> Run:
    """Return a launch-bound run on the CPU and one H200 with NVML telemetry."""
    return run({"cpu": CPU_SPEEDS, "gpu0": LAUNCH_BOUND}, trials=trials)


def four_gpu_run(*, trials: int = 3) -> Run:
    """Return a compute-bound run on the CPU and on one, two and four GPUs, at 95 and 90 % efficiency."""
    devices: dict[str, Mapping[str, VariantSpeed]] = {"cpu": CPU_RESNET}
    for count, efficiency in ((1, 1.0), (2, 0.95), (4, 0.90)):
        devices["+".join(f"gpu{index}" for index in range(count))] = {
            variant: replace(speed, step_s=speed.step_s / efficiency, batch=speed.batch * count)
            for variant, speed in COMPUTE_BOUND.items()
        }
    return run(devices, name="resnet50", trials=trials, min_accuracy=0.0, accuracy=0.0)


def interrupted_run() -> Run:
    """Return a run stopped by Ctrl-C: the fourth of ten trials was cut short and six never started."""
    whole = gpu_run()
    cut = replace(
        whole.trials[3], status=Status.INTERRUPTED, exit_code=None, message="Interrupted while measuring.",
        windows=whole.trials[3].windows[:5], steps=(), metrics=(),
    )  # fmt: skip
    return replace(whole, trials=(*whole.trials[:3], cut))


def bare_run() -> Run:
    """Return a run without anything optional: no telemetry, steps, metrics or facts."""
    whole = gpu_run(trials=1)
    trials = tuple(
        replace(
            each, facts={}, phases=(), steps=(), metrics=(), telemetry=(), sampling={}, variants=(),
            windows=tuple(replace(window, wait_ns=-1) for window in each.windows),
            gaps=(TelemetryGap(source="nvml", device="gpu0", metric="*", start_ns=each.started_ns,
                      end_ns=each.ended_ns, reason="NVML is not installed"),),
        )
        for each in whole.trials
    )  # fmt: skip
    bare = replace(whole.manifest, images=(), data=(), gpus=(), system={}, host_facts={})
    return replace(whole, manifest=bare, trials=trials)


def empty_run() -> Run:
    """Return a run that was stopped before any trial ended."""
    return replace(cpu_run(trials=1), trials=())


def failed_run() -> Run:
    """Return a run in which every GPU trial failed because TensorFlow registered no GPU."""
    whole = gpu_run(trials=3)
    trials = tuple(
        replace(each, status=Status.NO_GPU, exit_code=3, message="TensorFlow registered 0 of 1 GPUs.",
                phases=(), windows=(), steps=(), metrics=())
        if each.device != "cpu" else each
        for each in whole.trials
    )  # fmt: skip
    return replace(whole, trials=trials)


HOSTILE = "<script>alert(1)</script>\"'&</style>{{7*7}}\u202e"


def hostile_run() -> Run:
    """Return a run in which every external name and text tries to break out of a page."""
    whole = gpu_run(trials=2)
    trials = tuple(
        replace(
            each, workload=HOSTILE, id=f"{HOSTILE}-{each.id}", message=HOSTILE, warnings=(HOSTILE,),
            facts={HOSTILE: HOSTILE},
            variants=tuple(
                replace(variant, changes=(Change(what=HOSTILE, before=HOSTILE, after=HOSTILE),))
                for variant in each.variants
            ),
            gaps=(TelemetryGap(source="nvml", device="gpu0", metric="*", start_ns=each.started_ns,
                      end_ns=each.ended_ns, reason=HOSTILE),),
        )
        for each in whole.trials
    )  # fmt: skip
    declared = replace(
        whole.workloads[0], name=HOSTILE, title=HOSTILE, source=HOSTILE,
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


def long_run(*, seconds: int = 3600, gpus: int = 8) -> Run:
    """Return a run of one trial, by default an hour on eight GPUs, sampled at 10 Hz."""
    device = "+".join(f"gpu{index}" for index in range(gpus))
    name = "resnet50"
    variants = len(COMPUTE_BOUND)
    windows = max(1, int((seconds - 20) / (variants * 10.03)))
    played = trial(name, device, speeds=COMPUTE_BOUND, windows=windows, window_s=10.0, accuracy=0.0)
    planned = (PlannedTrial(id=played.id, workload=name, device=device, index=0, variants=MEASURED),)
    described = manifest(gpus=gpus, workloads=(name,))
    return Run(manifest=described, workloads=(workload(name),), planned=planned, trials=(played,))
