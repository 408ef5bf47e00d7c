"""What is read from a compiled Keras model, and batches to feed it with."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


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


def repeated(batch: Any) -> tf.data.Dataset:
    """Return a pipeline that repeats a batch in host memory forever."""
    with tf.device("CPU:0"):
        return tf.data.Dataset.from_tensors(batch).repeat()
