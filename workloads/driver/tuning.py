"""The parameters of each variant and their differences from the baseline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workloads.protocol import (
    BASELINE,
    BATCH_PREFIX,
    CALLS_PREFIX,
    CUSTOM_LOOP,
    HOST_FED,
    INPUT_ONLY,
    OPTIMIZATION_PREFIX,
    PARALLEL_INPUT,
    STAGE_PREFIX,
    TENSORFLOW,
    THREADS_PREFIX,
    TUNED,
    WITHOUT_COPY,
    WITHOUT_FRAMEWORK,
    WITHOUT_INPUT,
    WITHOUT_LAUNCH,
    WITHOUT_PREFIX,
    Change,
    Spec,
    Workload,
    changes_baseline,
)

STEPS_PER_CALL: Mapping[str, Any] = {"cpu:steps_per_execution": 10, "gpu:steps_per_execution": 50}
# Remedies that apply to any pipeline.
PIPELINE_REMEDIES: Mapping[str, Any] = {"parallel_maps": True, "prefetch_batches": True}
# `tuned` of workloads that declare none. XLA is worthwhile on GPUs; on CPUs it may not be.
DEFAULT_TUNED: Mapping[str, Any] = {**STEPS_PER_CALL, "gpu:jit_compile": True, "feed": "resident"}
DEFAULT_TUNED_PIPELINE: Mapping[str, Any] = {
    **STEPS_PER_CALL, "gpu:jit_compile": True, **PIPELINE_REMEDIES, "gpu:prefetch_to_device": True,
}  # fmt: skip

# The driver's own parameters; None leaves the choice to Keras and TensorFlow.
DRIVER_DEFAULTS: Mapping[str, Any] = {
    "feed": "fit",
    "steps_per_execution": 1,
    "jit_compile": None,
    "precision": "tf32",
    "prefetch_to_device": False,
    "parallel_maps": False,
    "prefetch_batches": False,
    "run_eagerly": None,
    "callbacks": True,
}

# Changed parameters of parallel input and of the ablations, each of which removes one part of the step.
CHANGED_PARAMS: Mapping[str, Mapping[str, Any]] = {
    PARALLEL_INPUT: PIPELINE_REMEDIES,
    WITHOUT_INPUT: {"feed": "memory"},
    WITHOUT_LAUNCH: STEPS_PER_CALL,
    WITHOUT_FRAMEWORK: {"run_eagerly": False, "callbacks": False},
    WITHOUT_COPY: {"prefetch_to_device": True},
}

# Parameter names that are assumed to configure the pipeline.
PIPELINE_PARAMS = frozenset(
    {*PIPELINE_REMEDIES, "prefetch_to_device", "prefetch", "cache", "parallel_calls", "num_parallel_calls",
     "workers", "threads", "loader", "queue_size", "storage", "preprocess"}
)  # fmt: skip


def resolve(params: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Return the parameters for `device`; keys with its prefix override plain ones."""
    plain = {key: value for key, value in params.items() if ":" not in key}
    own = {key.split(":", 1)[1]: value for key, value in params.items() if key.startswith(f"{device}:")}
    return {**plain, **own}


def variant_params(workload: Workload, spec: Spec, variant: str) -> dict[str, Any]:
    """Return all parameters of `variant`.

    Raises:
        ValueError: no such optimization.
    """
    base = {
        **(DRIVER_DEFAULTS if workload.image == TENSORFLOW else {}),
        "batch_size": workload.batch_size,
        "epochs": workload.epochs,
        **resolve(workload.params, spec.device),
    }
    if variant == TUNED:
        declared = workload.tuned or (DEFAULT_TUNED_PIPELINE if workload.pipeline else DEFAULT_TUNED)
        base.update(resolve(declared, spec.device))
    if workload.takes_weights:
        base["weights"] = spec.weights
    if variant == PARALLEL_INPUT:
        declared = resolve(workload.tuned, spec.device)
        base.update({key: value for key, value in declared.items() if key in PIPELINE_PARAMS})
    base.update(resolve(CHANGED_PARAMS.get(variant, {}), spec.device))
    base.update(spec.params)
    if variant.startswith(OPTIMIZATION_PREFIX):
        # Overrides must not change the parameters that define an optimization.
        base.update(resolve(_optimization(workload, variant), spec.device))
    if (spec.gpus > 1 or spec.workers) and base.get("feed") in ("fit", "memory"):
        # Under a distribution strategy Keras fit does not support XLA, and steps_per_execution > 1 fails with
        # an unfed placeholder (Keras 3.15); the resident loop supports both.
        base.update(jit_compile=False, steps_per_execution=1)
    return base


def variant_changes(
    workload: Workload, spec: Spec, variant: str, ran: Mapping[str, Any] | None = None
) -> list[Change]:
    """Return how `variant` differs from the baseline; on several GPUs, also the change of the global batch."""
    before = variant_params(workload, spec, BASELINE)
    after = ran or variant_params(workload, spec, variant)
    changes = []
    if variant == TUNED or changes_baseline(variant):
        changes = [
            Change(what=key, before=_text(before.get(key)), after=_text(after[key]))
            for key in sorted(after)
            if before.get(key) != after[key]
        ]
    if spec.gpus > 1:
        total = after["batch_size"] * spec.gpus
        reference = before["batch_size"] * (1 if variant == BASELINE else spec.gpus)
        if reference != total:
            changes.append(Change(what="global batch", before=str(reference), after=str(total)))
    return changes


def factor(variant: str, prefix: str) -> int:
    """Return the number in a variant such as "batch:4"; 1 for other variants."""
    return int(variant.removeprefix(prefix)) if variant.startswith(prefix) else 1


def needless(workload: Workload, spec: Spec, variant: str) -> bool:
    """Return whether a variant of the breakdown is not informative for this workload and device."""
    gpu, one_device = spec.device == "gpu", spec.gpus <= 1 and not spec.workers
    trains = workload.task == "train"
    if variant == HOST_FED:
        return not (gpu and one_device and trains)
    if variant == WITHOUT_COPY:
        return not (gpu and one_device and trains and workload.pipeline)
    if variant == PARALLEL_INPUT:
        return spec.workers > 0 or not (trains and workload.pipeline)
    if variant == WITHOUT_INPUT:
        return spec.workers > 0 or not trains
    if variant.startswith(BATCH_PREFIX):
        return not one_device
    if variant == CUSTOM_LOOP or variant.startswith((CALLS_PREFIX, WITHOUT_PREFIX)):
        return not (one_device and trains)
    if variant == INPUT_ONLY or variant.startswith(STAGE_PREFIX):
        return not trains  # inference repeats a batch in memory
    if variant.startswith(THREADS_PREFIX):
        return not (trains and workload.pipeline)
    return False


def not_applicable(workload: Workload, spec: Spec, variant: str) -> str:
    """Return why a changed baseline or a stage does not apply to this trial; else ""."""
    if variant.startswith(STAGE_PREFIX) and not workload.pipeline:
        return f"{workload.name} has no pipeline stages."
    baseline = variant_params(workload, spec, BASELINE)
    if changes_baseline(variant) and variant_params(workload, spec, variant) == baseline:
        return f"It changes nothing on {spec.device if spec.gpus <= 1 else f'{spec.gpus} GPUs'}."
    return ""


def _optimization(workload: Workload, variant: str) -> Mapping[str, Any]:
    name = variant.removeprefix(OPTIMIZATION_PREFIX)
    if name not in workload.optimizations:
        available = ", ".join(workload.optimizations) or "none"
        raise ValueError(f"{workload.name} has no optimization {name!r}. Choose from: {available}.")
    return workload.optimizations[name]


def _text(value: Any) -> str:
    if value is None:
        return "default"
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
