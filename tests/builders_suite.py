"""A run like that of the default suite: four workloads on the CPU and a GPU, all variants of the breakdown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from harness.model.run import PlannedTrial, Run, Trial
from harness.run.plan import ON_A_GPU
from tests import builders
from tests.builders import GpuLoad, VariantSpeed
from workloads.protocol import (
    BASELINE,
    CUSTOM_LOOP,
    HOST_FED,
    INPUT_ONLY,
    MODEL_ONLY,
    PARALLEL_INPUT,
    STAGE_PREFIX,
    TUNED,
    WITHOUT_INPUT,
    WITHOUT_LAUNCH,
    Change,
    Published,
    measures_speed,
)

STAGES = ("read", "decode", "batch")


def model(step_s: float, *, gpu: bool) -> Mapping[str, VariantSpeed]:
    """Give the variants of a small model whose steps are mostly the launching of them."""
    load = GpuLoad(util=4, power_w=130) if gpu else None
    times = {
        BASELINE: (1.0, 0.02), INPUT_ONLY: (0.03, -1.0), MODEL_ONLY: (0.73, -1.0), CUSTOM_LOOP: (0.76, 0.01),
        HOST_FED: (0.745, -1.0), "calls:10": (0.2, -1.0), WITHOUT_LAUNCH: (0.25, 0.05), TUNED: (0.11, 0.03),
    }  # fmt: skip
    speeds = {
        name: VariantSpeed(step_s=step_s * factor, batch=32, wait_share=wait, load=load)
        for name, (factor, wait) in times.items()
    }
    speeds["batch:4"] = VariantSpeed(step_s=step_s * 0.75, batch=128, load=load)
    return {name: speed for name, speed in speeds.items() if gpu or name not in ON_A_GPU}


def pictures(scale: float, *, gpu: bool) -> Mapping[str, VariantSpeed]:
    """Give the variants of a workload that waits for its JPEGs to be decoded."""
    load = GpuLoad(util=6, power_w=135) if gpu else None
    times = {
        BASELINE: (0.068, 0.88), INPUT_ONLY: (0.062, -1.0), MODEL_ONLY: (0.006, -1.0),
        CUSTOM_LOOP: (0.066, 0.9), HOST_FED: (0.0065, -1.0), "calls:10": (0.004, -1.0),
        f"{STAGE_PREFIX}read": (0.004, -1.0), f"{STAGE_PREFIX}decode": (0.055, -1.0),
        f"{STAGE_PREFIX}batch": (0.061, -1.0), WITHOUT_INPUT: (0.0068, -1.0),
        PARALLEL_INPUT: (0.009, 0.2), TUNED: (0.005, 0.1),
    }  # fmt: skip
    return {
        name: VariantSpeed(step_s=scale * step_s, batch=32, wait_share=wait, load=load)
        for name, (step_s, wait) in times.items()
        if gpu or name not in ON_A_GPU
    }


DEFAULT = {
    "cats-dogs": {"cpu": pictures(1.3, gpu=False), "gpu0": pictures(1.0, gpu=True)},
    "cifar10-mlp": {"cpu": model(0.0049, gpu=False), "gpu0": model(0.0025, gpu=True)},
    "cifar100-mlp": {"cpu": model(0.0031, gpu=False), "gpu0": model(0.0022, gpu=True)},
    "fashion-mnist-mlp": {"cpu": model(0.0021, gpu=False), "gpu0": model(0.0017, gpu=True)},
}


def suite_run(*, trials: int = 3, seed: int = 1) -> Run:
    """Play the default suite; as in a plan, what only serves the breakdown runs in the first trials alone."""
    runs = [
        builders.run(devices, name=name, trials=trials, seed=seed, window_s=0.3)
        for name, devices in DEFAULT.items()
    ]
    played = tuple(_as_planned(trial) for run in runs for trial in run.trials)
    planned = tuple(
        PlannedTrial(
            id=each.id, workload=each.workload, device=each.device, index=each.index,
            variants=tuple(item.variant for item in each.variants),
        )
        for each in played
    )  # fmt: skip
    (pets, *others) = (run.workloads[0] for run in runs)
    published = Published(source="An article", system="8 vCPU", device="cpu", value=64, unit="samples/s")
    declared = (
        replace(pets, stages=STAGES, title="Cats and dogs", published=(published,)),
        *(replace(each, title=f"{each.name}, a small network") for each in others),
    )
    manifest = builders.manifest(gpus=1, workloads=tuple(DEFAULT), seed=seed)
    return Run(manifest=manifest, workloads=declared, planned=planned, trials=played)


def _as_planned(trial: Trial) -> Trial:
    loader = Change(what="loader", before="python", after="tf.data")
    fused = Change(what="steps_per_execution", before="1", after="50")
    memory = Change(what="feed", before="fit", after="memory")
    changes = {WITHOUT_INPUT: (memory,), PARALLEL_INPUT: (loader,), WITHOUT_LAUNCH: (fused,)}
    if trial.workload == "cats-dogs":
        changes[TUNED] = (loader,)
    infos = tuple(replace(each, changes=changes.get(each.variant, each.changes)) for each in trial.variants)
    if trial.index == 0:
        return replace(trial, variants=infos)
    return replace(
        trial,
        variants=tuple(each for each in infos if measures_speed(each.variant)),
        windows=tuple(each for each in trial.windows if measures_speed(each.variant)),
        steps=tuple(each for each in trial.steps if measures_speed(each.variant)),
        phases=tuple(each for each in trial.phases if not each.variant or measures_speed(each.variant)),
    )
