"""Build a variant's model: precision, seed, strategy, and settings applied after compile."""

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
    """Allow TF32 in float32 matrix products unless `precision` is "fp32". The switch is process-wide."""
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
    """Return the workload's compiled model for `params`, initialised from `seed`."""
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
        # Keras compiles its step across all replicas, which XLA rejects; steps.py compiles each replica's
        # step.
        model.jit_compile = False
    elif params["jit_compile"] is not None:
        # Fit reads it when it traces the step.
        model.jit_compile = params["jit_compile"]
    if params["run_eagerly"] is not None:
        model.run_eagerly = params["run_eagerly"]
    if params["steps_per_execution"] != 1 and params["feed"] == "fit":
        model.steps_per_execution = params["steps_per_execution"]


def uses_xla(model: Any, params: Mapping[str, Any]) -> bool:
    """Return whether XLA compiles the step, by `params` or Keras' default."""
    return bool(model.jit_compile if params["jit_compile"] is None else params["jit_compile"])


def make_variables(model: Any, batch: Any, strategy: tf.distribute.Strategy | None = None) -> None:
    """Create all variables of model, metrics, loss and optimizer, which a compiled loop must not create.

    Uses Keras' symbolic build: running the model eagerly would load a kernel per operation, 0.7 s on an H200.
    """
    with strategy.scope() if strategy else nullcontext():
        model._symbolic_build(data_batch=batch)


def running_loss(model: Any) -> float | None:
    """Return the mean loss since Keras last reset its metrics (each epoch in fit); None after a reset."""
    metric = loss_metric(model)
    if metric is None:
        return None
    # Without any samples Keras returns 0, which would look like a real loss.
    count = getattr(metric, "count", None)
    if count is not None and float(tf.convert_to_tensor(count)) == 0:
        return None
    return float(metric.result())


def loss_metric(model: Any) -> Any:
    """Return Keras' metric of the mean loss; None if the model has none."""
    return next((metric for metric in model.metrics if metric.name == "loss"), None)


def take_loss(model: Any) -> float | None:
    """Return the mean loss since the last call, None without steps; for custom training loops."""
    loss = running_loss(model)
    model.reset_metrics()
    return loss
