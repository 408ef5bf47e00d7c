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
    """Tell whether `params` ask for XLA, or leave it to Keras, which decides for it."""
    return bool(model.jit_compile if params["jit_compile"] is None else params["jit_compile"])


def make_variables(model: Any, x: Any, y: Any) -> None:
    """Create the variables of metrics, loss and optimiser: none may be made inside a compiled loop."""
    if not model.built:
        model(x)
    x, y = tf.convert_to_tensor(x), tf.convert_to_tensor(y)
    shape = getattr(model, "output_shape", None)

    # Traced only: running it operation by operation loads a kernel for each, 0.7 s on an H200.
    @tf.function(autograph=False)
    def traced() -> None:
        # A model that is a class of its own has no declared shape: it has to be asked.
        prediction = tf.zeros([len(x), *shape[1:]]) if shape else tf.zeros_like(model(x, training=False))
        model.compute_loss(x=x, y=y, y_pred=prediction)
        model.compute_metrics(x, y, prediction, sample_weight=None)

    traced.get_concrete_function()
    model.optimizer.build(model.trainable_variables)
    model.reset_metrics()


def make_mirrored_variables(model: Any, x: Any, y: Any, strategy: tf.distribute.Strategy) -> None:
    """Do the same on all devices of a strategy, by one test step."""
    with strategy.scope():
        if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
            # Keras' own test_on_batch fails with several workers, see together.py.
            tf.function(lambda: strategy.run(model.test_step, ((x, y),)), autograph=False)()
        else:
            model.test_on_batch(x, y)
        model.reset_metrics()


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
