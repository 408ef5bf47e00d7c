"""From a profile and filters to the ordered list of trials. Pure: nothing is looked up or started."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from harness.defaults import Profile
from harness.errors import UsageError, unknown
from harness.model.run import CPU, PlannedTrial, Point, Scalar
from harness.run.params import params_for
from workloads.protocol import (
    BASELINE,
    BATCH_PREFIX,
    CALLS_PREFIX,
    CUSTOM_LOOP,
    HOST_FED,
    INPUT_ONLY,
    MODEL_ONLY,
    OPTIMIZATION_PREFIX,
    PARALLEL_INPUT,
    STAGE_PREFIX,
    TENSORFLOW,
    THREADS_PREFIX,
    TUNED,
    VARIANTS,
    WITHOUT_COPY,
    WITHOUT_FRAMEWORK,
    WITHOUT_INPUT,
    WITHOUT_LAUNCH,
    Measuring,
    Spec,
    Workload,
    measures_speed,
)

# What the breakdown of a step's time is made of, in the order in which they run: the driver leaves out what
# those before show to be of no use. See docs/step-time.md for what each of them tells.
OF_THE_STEP = (
    INPUT_ONLY, MODEL_ONLY, CUSTOM_LOOP, HOST_FED, f"{BATCH_PREFIX}4", f"{CALLS_PREFIX}10",
    WITHOUT_FRAMEWORK, WITHOUT_LAUNCH, WITHOUT_INPUT,
)  # fmt: skip
OF_A_PIPELINE = (PARALLEL_INPUT, WITHOUT_COPY, f"{THREADS_PREFIX}1")
ON_A_GPU = (HOST_FED, WITHOUT_COPY)
_NUMBERED = re.compile(rf"({BATCH_PREFIX}|{CALLS_PREFIX}|{THREADS_PREFIX})[1-9]\d{{0,3}}")


def device_words(wanted: str) -> tuple[str, ...]:
    """Split a device list, whichever of them this machine has.

    Raises:
        UsageError: a word that names no device on any machine.
    """
    words = tuple(part.strip() for part in wanted.split(",") if part.strip())
    for word in words:
        if not re.fullmatch(r"auto|cpu|gpu|scaling|gpu\d+(\+gpu\d+)*", word):
            raise UsageError(
                f"There is no device {word!r}.",
                hint="Choose from: auto, cpu, gpu, scaling, gpu0, gpu1 ...; join GPUs with '+'.",
            )
    return words


def devices_named(wanted: str, gpu_count: int) -> tuple[str, ...]:
    """Resolve a device list such as "auto", "cpu,gpu", "gpu0+gpu1" or "cpu,scaling".

    auto is the CPU and each chosen GPU; gpu is each chosen GPU by itself; scaling is 1, 2, 4, ... of the
    chosen GPUs together.

    Raises:
        UsageError: a word that is none of these, or a GPU that was not chosen or is not there.
    """
    singles = tuple(f"gpu{index}" for index in range(gpu_count))
    powers = [1 << n for n in range(gpu_count.bit_length()) if 1 << n <= gpu_count]
    groups: dict[str, tuple[str, ...]] = {
        "auto": ("cpu", *singles),
        "cpu": ("cpu",),
        "gpu": singles,
        "scaling": tuple("+".join(singles[:count]) for count in powers),
    }
    result: list[str] = []
    for word in device_words(wanted):
        if groups.get(word):
            result += groups[word]
        elif set(parts := word.split("+")) <= set(singles) and len(set(parts)) == len(parts):
            result.append(word)
        else:
            raise UsageError(
                f"There is no device {word!r}.",
                hint=f"Choose from: {', '.join([*groups, *singles])}; join different GPUs with '+', "
                "and use --gpus all to select all GPUs.",
            )
    return tuple(dict.fromkeys(result))


def plan_trials(
    workloads: Sequence[Workload],
    devices: Sequence[str],
    profile: Profile,
    variants: Mapping[str, tuple[str, ...]],
    params: Mapping[str, Any],
    points: Sequence[Point] = ((),),
) -> tuple[PlannedTrial, ...]:
    """Return the trials in the order they run: by index first, so that a drifting machine hits all alike.

    Args:
        variants: workload name -> its variants, as `variants_named` gives them; a workload without any is
            left out. Those that only serve the breakdown run in the first trial of each device.
        points: of a sweep's grid; without one the single empty point.
    """
    return tuple(
        PlannedTrial(
            id=".".join((workload.name, device, *((f"p{number:02d}",) if point else ()), str(index))),
            workload=workload.name,
            device=device,
            index=index,
            variants=own,
            params={**params_for(workload, params), **dict(point)},
            point=point,
        )
        for index in range(profile.max_trials)
        for workload in workloads
        for number, point in enumerate(points, 1)
        for device in devices
        if (own := _of_trial(variants[workload.name], device, index))
    )


def _of_trial(variants: Sequence[str], device: str, index: int) -> tuple[str, ...]:
    here = tuple(variant for variant in variants if device != CPU or variant not in ON_A_GPU)
    speeds = tuple(variant for variant in here if measures_speed(variant))
    return here if index == 0 or not speeds else speeds


def grid(axes: Mapping[str, Sequence[Scalar]]) -> tuple[Point, ...]:
    """Return every combination of the axes' values, the last axis running fastest."""
    return tuple(tuple(zip(axes, values, strict=True)) for values in itertools.product(*axes.values()))


def variants_named(
    wanted: str, analysis: bool, workloads: Sequence[Workload]
) -> Mapping[str, tuple[str, ...]]:
    """Resolve a comma-separated list of variants to those that each workload has, by its name.

    "" is baseline and tuned and, with analysis, what the breakdown of a step is made of.

    Raises:
        UsageError: a word that is no variant of any of the workloads.
    """
    variants = tuple(dict.fromkeys(part.strip() for part in wanted.split(",") if part.strip()))
    if not variants:
        return {each.name: (BASELINE, TUNED, *(_probes(each) if analysis else ())) for each in workloads}
    for variant in variants:
        if not any(_has(workload, variant) for workload in workloads):
            own = dict.fromkeys(name for workload in workloads for name in _own_variants(workload))
            raise unknown("variant", variant, (*VARIANTS, *own, f"{STAGE_PREFIX}NAME"))
    return {
        workload.name: tuple(variant for variant in variants if _has(workload, variant))
        for workload in workloads
    }


def _has(workload: Workload, variant: str) -> bool:
    """Tell whether `variant` is one of the workload's; stages that it does not declare only its code knows."""
    if variant.startswith(STAGE_PREFIX) and not workload.stages:
        return variant != STAGE_PREFIX
    named = (*VARIANTS, *OF_THE_STEP, *OF_A_PIPELINE, *_own_variants(workload))
    return variant in named or _NUMBERED.fullmatch(variant) is not None


def _probes(workload: Workload) -> tuple[str, ...]:
    """Return the variants that only serve the breakdown, in the order in which they run."""
    stages = tuple(f"{STAGE_PREFIX}{stage}" for stage in workload.stages)
    if workload.image != TENSORFLOW:
        # Rounds of boosting wait for no input.
        return (INPUT_ONLY, *stages)
    pipeline = OF_A_PIPELINE if workload.pipeline else ()
    return (*OF_THE_STEP, *stages, *pipeline)


def _own_variants(workload: Workload) -> tuple[str, ...]:
    optimizations = (f"{OPTIMIZATION_PREFIX}{name}" for name in workload.optimizations)
    return (*optimizations, *(f"{STAGE_PREFIX}{stage}" for stage in workload.stages))


def spec_for(
    trial: PlannedTrial,
    profile: Profile,
    *,
    file: str,
    data_dir: str,
    seed: int,
    image: str = TENSORFLOW,
    weights: str = "",
) -> Spec:
    """Return what the container of `trial` is asked to do.

    Args:
        file: of the workload: its name in the tree, or its path in the container.
        weights: path of a file of weights there, "" for none.
    """
    measuring = {each.name: getattr(profile, each.name) for each in fields(Measuring)}
    measuring["full"] = profile.full and trial.index == 0
    trained = sum(measures_speed(variant) for variant in trial.variants)
    return Spec(
        workload=trial.workload,
        file=file,
        variants=trial.variants,
        device="gpu" if trial.gpus else "cpu",
        gpus=len(trial.gpus),
        data_dir=data_dir,
        weights=weights,
        params=trial.params,
        # A variant's share of the trial's time, a fifth being left for all but training.
        whole_s=0.8 * profile.limit_s / max(1, trained) if profile.full else 0.0,
        # How well it learns in these few steps says only whether it learns at all.
        evaluate=trial.index == 0,
        seed=seed,
        image=image,
        **measuring,
    )
