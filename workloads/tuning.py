"""What each variant runs with, and in which words that differs from baseline."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workloads.protocol import (
    BASELINE,
    BATCH_PREFIX,
    CACHED_EPOCH,
    CALLS_PREFIX,
    CUSTOM_LOOP,
    FIRST_EPOCH,
    HOST_FED,
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
    Optimization,
    Spec,
    Workload,
    changes_baseline,
)

# What a workload that declares no `tuned` gets. XLA pays on a GPU always; on a CPU it may not.
DEFAULT_TUNED: Mapping[str, Any] = {
    "feed": "resident",
    "cpu:steps_per_execution": 10,
    "gpu:steps_per_execution": 50,
    "gpu:jit_compile": True,
}
# What can be done for a pipeline without knowing what it does.
PIPELINE_REMEDIES: Mapping[str, Any] = {"parallel_maps": True, "prefetch_batches": True}
DEFAULT_TUNED_PIPELINE: Mapping[str, Any] = {
    **PIPELINE_REMEDIES,
    "cpu:steps_per_execution": 10,
    "gpu:steps_per_execution": 50,
    "gpu:jit_compile": True,
    "gpu:prefetch_to_device": True,
}

# What the driver itself reads; a value of None means "left to Keras and TensorFlow".
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

# What the baseline is changed by to take one part of its step away, or to prepare its input in parallel.
CHANGED_PARAMS: Mapping[str, Mapping[str, Any]] = {
    PARALLEL_INPUT: PIPELINE_REMEDIES,
    WITHOUT_INPUT: {"feed": "memory"},
    WITHOUT_LAUNCH: {"cpu:steps_per_execution": 10, "gpu:steps_per_execution": 50},
    WITHOUT_FRAMEWORK: {"run_eagerly": False, "callbacks": False},
    WITHOUT_COPY: {"prefetch_to_device": True},
}

# Parameters of a workload's own that are taken to speak of its pipeline, beside the driver's.
PIPELINE_PARAMS = frozenset(
    {*PIPELINE_REMEDIES, "prefetch_to_device", "prefetch", "cache", "parallel_calls", "num_parallel_calls",
     "workers", "threads", "loader", "queue_size", "decode_ratio", "storage", "preprocess"}
)  # fmt: skip

WHY: Mapping[str, str] = {
    "feed": "the data stays on the device and batches are gathered there, so no step waits for the host",
    "steps_per_execution": "one call from Python runs many steps, which cuts the launch cost of each",
    "jit_compile": "XLA fuses small operations into few kernels",
    "precision": "half-width numbers use the tensor cores and halve the memory traffic",
    "batch_size": "a larger batch fills the device; it also changes how the model learns",
    "parallel_maps": "samples are prepared in parallel on all CPUs instead of one at a time",
    "prefetch_batches": "the next batches are prepared while this one is computed",
    "prefetch_to_device": "the next batch is copied to the device while this one is computed",
    "run_eagerly": "the step is compiled into a graph; Python no longer runs each operation",
    "callbacks": "no Python code runs between steps",
}
WHY_FROM_MEMORY = "a batch that is ready in memory feeds every step: what input costs, not a remedy"


class ParameterError(ValueError):
    """A variant or a parameter that the workload does not have."""


def resolve(params: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Drop the "cpu:" and "gpu:" prefixes: keep what holds on `device`, the prefixed over the plain."""
    plain = {key: value for key, value in params.items() if ":" not in key}
    own = {key.split(":", 1)[1]: value for key, value in params.items() if key.startswith(f"{device}:")}
    return {**plain, **own}


def variant_params(workload: Workload, spec: Spec, variant: str, *, pipeline: bool) -> dict[str, Any]:
    """Return everything that `variant` runs with.

    Args:
        pipeline: the workload has a tf.data pipeline of its own instead of arrays.

    Raises:
        ParameterError: no such optimization.
    """
    base = {
        **(DRIVER_DEFAULTS if workload.image == TENSORFLOW else {}),
        "batch_size": workload.batch_size,
        "epochs": workload.epochs,
        **resolve(workload.params, spec.device),
    }
    if variant == TUNED:
        declared = workload.tuned or (DEFAULT_TUNED_PIPELINE if pipeline else DEFAULT_TUNED)
        base.update(resolve(declared, spec.device))
    if workload.takes_weights:
        base["weights"] = spec.weights
    if variant == PARALLEL_INPUT:
        declared = resolve(workload.tuned, spec.device)
        base.update({key: value for key, value in declared.items() if key in PIPELINE_PARAMS})
    base.update(resolve(CHANGED_PARAMS.get(variant, {}), spec.device))
    base.update(spec.params)
    if variant.startswith(OPTIMIZATION_PREFIX):
        # An optimization is its parameters: an override must not turn it into another one.
        base.update(resolve(_optimization(workload, variant).params, spec.device))
    if (spec.gpus > 1 or spec.workers) and base.get("feed") in ("fit", "memory"):
        # Under a distribution strategy Keras fit has no XLA, and its loop over several steps (3.15) dies
        # of an unfed placeholder; the resident loop has both.
        base.update(jit_compile=False, steps_per_execution=1)
    return base


def variant_changes(
    workload: Workload,
    spec: Spec,
    variant: str,
    *,
    pipeline: bool,
    ran: Mapping[str, Any] | None = None,
) -> list[Change]:
    """Say what `variant` does differently from baseline; baseline on several GPUs, from what is published."""
    changes = []
    before = variant_params(workload, spec, BASELINE, pipeline=pipeline)
    after = ran or variant_params(workload, spec, variant, pipeline=pipeline)
    if variant == TUNED or changes_baseline(variant):
        said = {change.what: change.why for change in workload.changes} if variant == TUNED else {}
        optimization_why = (
            _optimization(workload, variant).why if variant.startswith(OPTIMIZATION_PREFIX) else ""
        )
        for key in sorted(after):
            if before.get(key) != after[key]:
                known = (
                    WHY_FROM_MEMORY if variant == WITHOUT_INPUT else WHY.get(key, "declared by the workload")
                )
                why = said.pop(key, "") or optimization_why or known
                changes.append(
                    Change(what=key, before=_text(before.get(key)), after=_text(after[key]), why=why)
                )
        # What is left is no parameter; or one that this device does not change, which would be untrue.
        changes += [one for one in workload.changes if one.what in said and one.what not in after]
    if spec.gpus > 1:
        size = after["batch_size"]
        usual = before["batch_size"] * (1 if variant == BASELINE else spec.gpus)
        if usual != size * spec.gpus:
            changes.append(
                Change(
                    what="global batch",
                    before=str(usual),
                    after=str(size * spec.gpus),
                    why=f"MirroredStrategy feeds {spec.gpus} GPUs with batch_size {size} each",
                )
            )
    return changes


def applies(workload: Workload, spec: Spec, variant: str, *, pipeline: bool) -> bool:
    """Tell whether a variant that only serves the breakdown says anything about this workload and device."""
    one_device = spec.gpus <= 1 and not spec.workers
    trains = workload.task == "train"
    if variant == HOST_FED:
        return spec.device == "gpu" and one_device and trains
    if variant == CUSTOM_LOOP or variant.startswith(CALLS_PREFIX):
        return one_device and trains
    if variant.startswith(BATCH_PREFIX):
        return one_device
    if variant == PARALLEL_INPUT:
        return pipeline and trains and not spec.workers
    if variant == WITHOUT_INPUT:
        return trains and not spec.workers
    if variant == WITHOUT_COPY:
        return pipeline and trains and one_device and spec.device == "gpu"
    if variant.startswith(WITHOUT_PREFIX):
        return one_device and trains
    if variant in (FIRST_EPOCH, CACHED_EPOCH) or variant.startswith(THREADS_PREFIX):
        return pipeline
    return True


def unfit(workload: Workload, spec: Spec, variant: str, *, pipeline: bool) -> str:
    """Say why an optimization or a stage makes no sense in this trial; "" where it does, and for all other variants."""
    if variant.startswith(STAGE_PREFIX) and not pipeline:
        return f"{variant} was left out: {workload.name} has no pipeline of stages."
    if not variant.startswith(OPTIMIZATION_PREFIX):
        return ""
    device = _optimization(workload, variant).device
    if device not in ("", spec.device):
        return f"{variant} was left out: it is for a {device} only."
    written = variant_params(workload, spec, BASELINE, pipeline=pipeline)
    if variant_params(workload, spec, variant, pipeline=pipeline) == written:
        return f"{variant} was left out: with {max(spec.gpus, 1)} devices it is the same as baseline."
    return ""


def _optimization(workload: Workload, variant: str) -> Optimization:
    name = variant.removeprefix(OPTIMIZATION_PREFIX)
    for optimization in workload.optimizations:
        if optimization.name == name:
            return optimization
    known = ", ".join(optimization.name for optimization in workload.optimizations) or "none"
    raise ParameterError(f"{workload.name} has no optimization {name!r}; it has: {known}.")


def _text(value: Any) -> str:
    if value is None:
        return "default"
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
