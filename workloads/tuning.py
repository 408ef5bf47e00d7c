"""What each leg runs with, and in which words that differs from as-written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workloads.protocol import (
    AS_WRITTEN,
    BATCH_PREFIX,
    CACHED_EPOCH,
    CALLS_PREFIX,
    CUSTOM_LOOP,
    FIRST_EPOCH,
    HOST_FED,
    RUNG_PREFIX,
    STAGE_PREFIX,
    TENSORFLOW,
    THREADS_PREFIX,
    TUNED,
    TUNED_INPUT,
    Change,
    Rung,
    Spec,
    Workload,
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
}

# Parameters of a workload's own that are taken to speak of its pipeline, beside the driver's.
PIPELINE_PARAMS = frozenset(
    {*PIPELINE_REMEDIES, "prefetch_to_device", "prefetch", "cache", "parallel_calls", "num_parallel_calls",
     "workers", "threads", "loader", "queue_size", "decode_ratio", "storage", "preprocess"}
)  # fmt: skip

WHY: Mapping[str, str] = {
    "feed": "the data stays on the device and batches are gathered there, so that no step waits for the host",
    "steps_per_execution": "one call from Python runs many steps, so that launching them costs less",
    "jit_compile": "XLA fuses small operations into few kernels",
    "precision": "half-width numbers use the tensor cores and halve the memory traffic",
    "batch_size": "a larger batch fills the device; it also changes how the model learns",
    "parallel_maps": "samples are prepared side by side on all processors instead of one after another",
    "prefetch_batches": "the next batches are prepared while this one is computed",
    "prefetch_to_device": "the next batch is copied to the device while this one is computed",
}


class ParameterError(ValueError):
    """A leg or a parameter that the workload does not have."""


def resolve(params: Mapping[str, Any], device: str) -> dict[str, Any]:
    """Drop the "cpu:" and "gpu:" prefixes: keep what holds on `device`, the prefixed over the plain."""
    plain = {key: value for key, value in params.items() if ":" not in key}
    own = {key.split(":", 1)[1]: value for key, value in params.items() if key.startswith(f"{device}:")}
    return {**plain, **own}


def leg_params(workload: Workload, spec: Spec, leg: str, *, pipeline: bool) -> dict[str, Any]:
    """Return everything that `leg` runs with.

    Args:
        pipeline: the workload has a tf.data pipeline of its own instead of arrays.

    Raises:
        ParameterError: no such rung.
    """
    base = {
        **(DRIVER_DEFAULTS if workload.image == TENSORFLOW else {}),
        "batch_size": workload.batch_size,
        "epochs": workload.epochs,
        **resolve(workload.params, spec.device),
    }
    if leg == TUNED:
        declared = workload.tuned or (DEFAULT_TUNED_PIPELINE if pipeline else DEFAULT_TUNED)
        base.update(resolve(declared, spec.device))
    if workload.takes_weights:
        base["weights"] = spec.weights
    if leg == TUNED_INPUT:
        declared = resolve(workload.tuned, spec.device)
        own = {key: value for key, value in declared.items() if key in PIPELINE_PARAMS}
        base.update({**PIPELINE_REMEDIES, **own})
    base.update(spec.params)
    if leg.startswith(RUNG_PREFIX):
        # A rung is its parameters: an override must not turn it into another one.
        base.update(resolve(_rung(workload, leg).params, spec.device))
    if (spec.gpus > 1 or spec.workers) and base.get("feed") == "fit":
        # Under a distribution strategy Keras fit has no XLA, and its loop over several steps (3.15) dies
        # of an unfed placeholder; the resident loop has both.
        base.update(jit_compile=False, steps_per_execution=1)
    return base


def leg_changes(workload: Workload, spec: Spec, leg: str, *, pipeline: bool) -> list[Change]:
    """Say what `leg` does differently from as-written; as-written on several GPUs, from what is published."""
    changes = []
    before = leg_params(workload, spec, AS_WRITTEN, pipeline=pipeline)
    after = leg_params(workload, spec, leg, pipeline=pipeline)
    if leg in (TUNED, TUNED_INPUT) or leg.startswith(RUNG_PREFIX):
        said = {change.what: change.why for change in workload.changes} if leg == TUNED else {}
        rung_why = _rung(workload, leg).why if leg.startswith(RUNG_PREFIX) else ""
        for key in sorted(after):
            if before.get(key) != after[key]:
                why = said.pop(key, "") or rung_why or WHY.get(key, "declared by the workload")
                changes.append(
                    Change(what=key, before=_text(before.get(key)), after=_text(after[key]), why=why)
                )
        # What is left is no parameter; or one that this device does not change, which would be untrue.
        changes += [one for one in workload.changes if one.what in said and one.what not in after]
    if spec.gpus > 1:
        size = after["batch_size"]
        usual = before["batch_size"] * (1 if leg == AS_WRITTEN else spec.gpus)
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


def applies(workload: Workload, spec: Spec, leg: str, *, pipeline: bool) -> bool:
    """Tell whether a leg that only serves the verdict says anything about this workload and device."""
    one_device = spec.gpus <= 1 and not spec.workers
    trains = workload.task == "train"
    if leg == HOST_FED:
        return spec.device == "gpu" and one_device and trains
    if leg == CUSTOM_LOOP or leg.startswith(CALLS_PREFIX):
        return one_device and trains
    if leg.startswith(BATCH_PREFIX):
        return one_device
    if leg == TUNED_INPUT:
        return pipeline and trains and not spec.workers
    if leg in (FIRST_EPOCH, CACHED_EPOCH) or leg.startswith(THREADS_PREFIX):
        return pipeline
    return True


def unfit(workload: Workload, spec: Spec, leg: str, *, pipeline: bool) -> str:
    """Say why a rung or a stage makes no sense in this trial; "" where it does, and for all other legs."""
    if leg.startswith(STAGE_PREFIX) and not pipeline:
        return f"{leg} was left out: {workload.name} has no pipeline of stages."
    if not leg.startswith(RUNG_PREFIX):
        return ""
    device = _rung(workload, leg).device
    if device not in ("", spec.device):
        return f"{leg} was left out: it is for a {device} only."
    written = leg_params(workload, spec, AS_WRITTEN, pipeline=pipeline)
    if leg_params(workload, spec, leg, pipeline=pipeline) == written:
        return f"{leg} was left out: with {max(spec.gpus, 1)} devices it is the same as as-written."
    return ""


def _rung(workload: Workload, leg: str) -> Rung:
    name = leg.removeprefix(RUNG_PREFIX)
    for rung in workload.ladder:
        if rung.name == name:
            return rung
    known = ", ".join(rung.name for rung in workload.ladder) or "none"
    raise ParameterError(f"{workload.name} has no rung {name!r}; it has: {known}.")


def _text(value: Any) -> str:
    if value is None:
        return "default"
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
