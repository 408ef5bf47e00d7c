"""Plan the trials of a run: devices, variants, sweep points and their order. No I/O."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.defaults import Profile
from harness.errors import GpuError, UsageError, unknown
from harness.model.device import CPU, GPU, device_kind, gpu_names, is_gpu, of_gpus, positions, single_devices
from harness.model.run import PlannedTrial, Point, Scalar
from harness.model.workload import Workload
from harness.run.scripts import params_for
from workloads.protocol import (
    ALL_REDUCE_SIZES,
    CPU_CAPABILITIES,
    GPU_CAPABILITIES,
    GROUP_CAPABILITIES,
    MACHINE,
    NODE_PREFIX,
    SOAK,
    TENSORFLOW,
    distributes,
    peer,
)
from workloads.variants import (
    BASELINE,
    BREAKDOWN,
    FIXES,
    INPUT_ONLY,
    KINDS,
    OPTIMIZATION,
    TUNED,
    Need,
    kind_of,
    measures_speed,
    usual,
)


def split_devices(text: str) -> tuple[str, ...]:
    """Split a device list; the devices need not exist on this machine.

    Raises:
        UsageError: not a valid device name.
    """
    devices = tuple(part.strip() for part in text.split(",") if part.strip())
    for device in devices:
        if device not in ("auto", CPU, GPU, "scaling") and not positions(device):
            raise UsageError(
                f"Unknown device {device!r}.",
                hint="Choose from: auto, cpu, gpu, scaling, gpu0, gpu1 ...; join GPUs with '+'.",
            )
    return devices


def resolve_devices(text: str, gpu_count: int, no_gpu: str = "") -> tuple[str, ...]:
    """Resolve a device list such as "auto", "cpu,gpu", "gpu0+gpu1" or "cpu,scaling".

    auto is the CPU and each selected GPU; gpu is each selected GPU alone; scaling is 1, 2, 4, ... of the
    selected GPUs together.

    Raises:
        UsageError: invalid device name, or a GPU that is not selected or does not exist.
        GpuError: a GPU is requested but there is none; `no_gpu` is the reason.
    """
    singles = tuple(of_gpus(index) for index in range(gpu_count))
    powers = [1 << n for n in range(gpu_count.bit_length()) if 1 << n <= gpu_count]
    groups: dict[str, tuple[str, ...]] = {
        "auto": (CPU, *singles),
        CPU: (CPU,),
        GPU: singles,
        "scaling": tuple(of_gpus(*range(count)) for count in powers),
    }
    result: list[str] = []
    for device in split_devices(text):
        names = gpu_names(device)
        if groups.get(device):
            result += groups[device]
        elif names and set(names) <= set(singles) and len(set(names)) == len(names):
            result.append(device)
        elif not gpu_count:
            raise no_gpus(f"Device {device!r}", no_gpu)
        else:
            raise UsageError(
                f"Unknown device {device!r}.",
                hint=f"Choose from: {', '.join([*groups, *singles])}; join different GPUs with '+', "
                "and use --gpus all to select all GPUs.",
            )
    return tuple(dict.fromkeys(result))


def no_gpus(asked: str, reason: str) -> GpuError:
    """Return the error for what asks for GPUs where none is usable."""
    return GpuError(
        f"{asked} was requested, but no GPU is usable: {reason.rstrip('.')}.",
        hint="Run `tfbench doctor` to see what is missing, or choose --device cpu.",
    )


def plan_trials(
    workloads: Sequence[Workload],
    devices: Sequence[str],
    profile: Profile,
    variants: Mapping[str, tuple[str, ...]],
    params: Mapping[str, Any],
    points: Sequence[Point] = ((),),
) -> tuple[PlannedTrial, ...]:
    """Return the trials in execution order: by index first, so that drift affects all of them alike.

    Args:
        variants: workload name -> variants, from `resolve_variants`; a workload without variants is
            left out. Variants that only serve the breakdown run in the first trial of each device.
        points: points of a sweep; a single empty point without one.
    """
    return tuple(
        PlannedTrial(
            id=".".join((workload.name, device, *((f"p{number:02d}",) if point else ()), str(index))),
            workload=workload.name,
            device=device,
            index=index,
            variants=trial_variants,
            params={**params_for(workload, params), **dict(point)},
            point=point,
        )
        for index in range(profile.max_trials)
        for workload in workloads
        for number, point in enumerate(points, 1)
        for device in devices
        if (trial_variants := _trial_variants(workload, variants[workload.name], device, index))
    )


def with_cpu_to_compare(
    planned: Iterable[PlannedTrial], workloads: Iterable[Workload]
) -> tuple[PlannedTrial, ...]:
    """Return the trials with nothing but speeds on the CPU, which beside GPUs is a scale."""
    tuned = {workload.name for workload in workloads if workload.tuned}
    return tuple(
        replace(trial, variants=tuple(filter(measures_speed, trial.variants)))
        if trial.device == CPU and trial.workload in tuned
        else trial
        for trial in planned
    )


def machine_trials(
    devices: Sequence[str], profile: Profile, nodes: Sequence[str] = ()
) -> tuple[PlannedTrial, ...]:
    """Return the trials that measure each device alone, and groups of GPUs where their GPUs work together.

    Args:
        nodes: NUMA nodes of the CPUs in use, from each of which memory is copied to each GPU if there are several.
    """
    of_gpu = (*GPU_CAPABILITIES, *(f"{NODE_PREFIX}{node}" for node in nodes if len(nodes) > 1))
    groups = {device: _group_variants(device, known) for device, known in _known_pairs(devices).items()}
    capabilities = {
        device: of_gpu if is_gpu(device) else CPU_CAPABILITIES for device in single_devices(devices)
    }
    return tuple(
        PlannedTrial(
            id=f"{MACHINE}.{device}.{index}",
            workload=MACHINE,
            device=device,
            index=index,
            # The curve of the all-reduce takes a program for each size.
            variants=tuple(each for each in variants if not index or each not in ALL_REDUCE_SIZES),
        )
        for index in range(profile.trials)
        for device, variants in {**capabilities, **groups}.items()
    )


def _known_pairs(devices: Sequence[str]) -> Mapping[str, set[tuple[int, int]]]:
    """Return each group of GPUs, with the pairs of GPUs that larger groups before it have."""
    groups = [device for device in devices if len(positions(device)) > 1]
    result: dict[str, set[tuple[int, int]]] = {}
    known: set[tuple[int, int]] = set()
    for device in sorted(groups, key=lambda each: -len(positions(each))):
        result[device] = set(known)
        known |= set(itertools.permutations(positions(device), 2))
    return {device: result[device] for device in groups}


def _group_variants(device: str, known: Collection[tuple[int, int]]) -> tuple[str, ...]:
    """Return what is measured of a group: copies between each pair of its GPUs unless known, and the all-reduce."""
    gpus = positions(device)
    pairs = itertools.permutations(range(len(gpus)), 2)
    new = (peer(a, b) for a, b in pairs if (gpus[a], gpus[b]) not in known)
    return (*new, *GROUP_CAPABILITIES, *ALL_REDUCE_SIZES)


def soak_trials(devices: Sequence[str], seconds: float) -> tuple[PlannedTrial, ...]:
    """Return trials that saturate each device for so long, GPUs that work together at once."""
    widest = max(devices, key=lambda device: len(positions(device)))
    alone = (
        device for device in single_devices(devices) if device not in gpu_names(widest) or device == widest
    )
    return tuple(
        PlannedTrial(
            id=f"{MACHINE}.{device}.{SOAK}", workload=MACHINE, device=device, index=0, variants=(SOAK,),
            params={SOAK: seconds},
        )
        for device in dict.fromkeys((*alone, widest))
    )  # fmt: skip


def _trial_variants(workload: Workload, variants: Sequence[str], device: str, index: int) -> tuple[str, ...]:
    together = len(positions(device)) > 1
    rungs = {OPTIMIZATION.of(name): rung.device for name, rung in workload.ladder.items()}
    kind = device_kind(device)
    available = tuple(
        variant
        for variant in variants
        if (is_gpu(device) or Need.GPU not in kind_of(variant).needs)
        and rungs.get(variant, "") in ("", kind)
        and not (together and one_device_only(workload, variant))
    )
    speeds = tuple(variant for variant in available if measures_speed(variant))
    return available if index == 0 or not speeds else speeds


def one_device_only(workload: Workload, variant: str) -> str:
    """Return why a variant cannot run on several GPUs together; "" if it can, as far as its script tells."""
    if workload.image != TENSORFLOW:
        return "an XGBoost process uses one GPU"
    if workload.requests is not None:
        return "inference uses one device"
    rung = workload.ladder.get(OPTIMIZATION.argument(variant))
    file = rung.script if rung else workload.tuned if variant == TUNED else ""
    if not file or distributes(workload.scripts.get(file, "")):
        return ""  # the driver trains the script as written in a MirroredStrategy
    if file != workload.file:
        return "its script trains on one device"
    # XLA's known issues: "tf.Variable on a different device"; tried with TensorFlow 2.21.
    if rung and rung.params.get("JIT_COMPILE"):
        return "XLA cannot compile a step of MirroredStrategy"
    return ""


def not_applicable(
    workloads: Sequence[Workload], devices: Sequence[str], variants: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """Return a sentence for each reason for which variants are not planned on several GPUs.

    Args:
        variants: as for `plan_trials`.
    """
    if not any(len(positions(device)) > 1 for device in devices):
        return ()
    result = []
    for workload in workloads:
        own = {each: one_device_only(workload, each) for each in variants[workload.name]}
        for reason in dict.fromkeys(filter(None, own.values())):
            names = [each for each, why in own.items() if why == reason]
            # All that serves the breakdown goes with the script as written.
            which = "" if len(names) == len(own) else f" ({', '.join(names)})"
            result.append(f"Not applicable to several GPUs: {workload.name}{which}: {reason}.")
    return tuple(result)


def grid(axes: Mapping[str, Sequence[Scalar | None]]) -> tuple[Point, ...]:
    """Return every combination of the axes' values; the last axis varies fastest."""
    return tuple(tuple(zip(axes, values, strict=True)) for values in itertools.product(*axes.values()))


def resolve_variants(
    text: str, analysis: bool, workloads: Sequence[Workload]
) -> Mapping[str, tuple[str, ...]]:
    """Resolve a comma-separated list of variants; return workload name -> its variants.

    "" means baseline, tuned and, with analysis, the variants for the step-time breakdown.

    Raises:
        UsageError: no workload has a variant.
    """
    variants = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not variants:
        return {
            workload.name: (
                BASELINE,
                *([TUNED] if workload.tuned or (analysis and workload.image == TENSORFLOW) else []),
                *(_analysis_variants(workload) if analysis else ()),
            )
            for workload in workloads
        }
    named = {workload.name: _named_variants(workload) for workload in workloads}
    made = {workload.name for workload in workloads if not workload.tuned and workload.image == TENSORFLOW}
    for variant in variants:
        if not any(usual(variant) in names for names in named.values()):
            raise unknown("variant", variant, dict.fromkeys(itertools.chain(*named.values())))
    result = {}
    for name, names in named.items():
        chosen: list[str] = []
        for variant in variants:
            if usual(variant) in names:
                # Without a script of its own, tuned is made of the fixes that gained.
                chosen += (BASELINE, FIXES, TUNED) if variant == TUNED and name in made else (variant,)
        result[name] = tuple(dict.fromkeys(chosen))
    return result


def _analysis_variants(workload: Workload) -> tuple[str, ...]:
    """Return the variants that only serve the breakdown, in execution order."""
    if workload.image != TENSORFLOW:
        return (INPUT_ONLY,)  # boosting rounds do not wait for input
    # The large models of GPUs take a minute to compile; their ladders are the remedies.
    return tuple(variant for variant in BREAKDOWN if variant != FIXES or workload.suite != "gpu")


def _named_variants(workload: Workload) -> tuple[str, ...]:
    ladder = map(OPTIMIZATION.of, workload.ladder)
    if workload.image == TENSORFLOW:
        return (BASELINE, TUNED, *BREAKDOWN, *ladder)
    tuned = (TUNED,) if workload.tuned else ()
    return (
        BASELINE,
        *tuned,
        *(kind.in_breakdown for kind in KINDS.values() if kind.trees and kind.breakdown),
        *ladder,
    )
