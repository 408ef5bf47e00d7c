"""Make a variant's model: precision, seed, strategy, and the settings that Keras takes after compile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import tensorflow as tf

POLICIES: Mapping[str, str] = {
    "fp32": "float32",
    "tf32": "float32",
    "fp16": "mixed_float16",
    "bf16": "mixed_bfloat16",
}


def set_precision(precision: str) -> None:
    """Allow TF32 in float32 products except for "fp32". It is one switch for the whole process."""
    if precision not in POLICIES:
        raise ValueError(f"precision={precision!r} is not one of {', '.join(POLICIES)}.")
    tf.config.experimental.enable_tensor_float_32_execution(precision != "fp32")


def build(
    model: Callable[[Mapping[str, Any]], Any],
    params: Mapping[str, Any],
    *,
    strategy: tf.distribute.Strategy | None,
    seed: int,
) -> Any:
    """Return the workload's compiled model as `params` ask for it, with weights from `seed`."""
    set_precision(params["precision"])
    tf.keras.utils.set_random_seed(seed)
    before = tf.keras.mixed_precision.global_policy()
    tf.keras.mixed_precision.set_global_policy(POLICIES[params["precision"]])
    try:
        with strategy.scope() if strategy else nullcontext():
            built = model(params)
            _configure(built, params)
    finally:
        tf.keras.mixed_precision.set_global_policy(before)
    return built


def _configure(model: Any, params: Mapping[str, Any]) -> None:
    if tf.distribute.has_strategy():
        # Keras compiles its step around all replicas, which XLA refuses; steps.py compiles inside each.
        model.jit_compile = False
    elif params["jit_compile"] is not None:
        # Fit reads it when it traces its step.
        model.jit_compile = params["jit_compile"]
    if params["run_eagerly"] is not None:
        model.run_eagerly = params["run_eagerly"]
    if params["steps_per_execution"] != 1 and params["feed"] == "fit":
        model.steps_per_execution = params["steps_per_execution"]


def uses_xla(model: Any, params: Mapping[str, Any]) -> bool:
    """Return whether XLA compiles the step: as `params` say, else as Keras decides."""
    return bool(model.jit_compile if params["jit_compile"] is None else params["jit_compile"])


def make_variables(model: Any, x: Any, y: Any, strategy: tf.distribute.Strategy | None = None) -> None:
    """Create the variables of model, metrics, loss and optimiser: none may be made inside a compiled loop.

    By Keras' own way to do so, which traces: running the model operation by operation loads a kernel for each,
    0.7 s on an H200.
    """
    with strategy.scope() if strategy else nullcontext():
        model._symbolic_build(data_batch=(tf.convert_to_tensor(x), tf.convert_to_tensor(y)))


def running_loss(model: Any) -> float | None:
    """Return the mean loss since Keras last reset its metrics (each epoch, in fit); None right after that."""
    metric = loss_metric(model)
    if metric is None:
        return None
    # Keras calls the mean of nothing 0, which no loss of a model under training is.
    count = getattr(metric, "count", None)
    if count is not None and float(tf.convert_to_tensor(count)) == 0:
        return None
    return float(metric.result())


def loss_metric(model: Any) -> Any:
    """Return the metric in which Keras keeps the mean loss; None for a model that has none."""
    return next((metric for metric in model.metrics if metric.name == "loss"), None)


def take_loss(model: Any) -> float | None:
    """Return the mean loss since the last call, None without a step; for loops that Keras does not drive."""
    loss = running_loss(model)
    model.reset_metrics()
    return loss
