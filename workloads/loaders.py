"""Keras' Python loaders (PyDataset) as an input: recognised, and drained as by fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from workloads import devices


def is_loader(source: Any) -> bool:
    """Tell whether an input is a Python loader instead of a tf.data pipeline."""
    return isinstance(source, getattr(tf.keras.utils, "PyDataset", ()))


def as_dataset(source: Any) -> tf.data.Dataset:
    """Return an epoch of a Python loader as the pipeline that Keras fit makes of it.

    Source: keras/src/trainers/data_adapters/py_dataset_adapter.py (Keras 3).
    """
    from keras.src.trainers.data_adapters import py_dataset_adapter  # noqa: PLC0415 - Keras 3 only

    return py_dataset_adapter.PyDatasetAdapter(source).get_tf_dataset()


def drain_model(names: Sequence[str]) -> Any:
    """Return a model that learns nothing: its fit takes batches as any fit does, and only that.

    Args:
        names: of the devices that each batch's shares are copied to.
    """

    class Drain(tf.keras.Model):
        """Takes a batch and leaves it at that."""

        def train_step(self, data: Any) -> dict[str, Any]:
            """Look at each device's share."""
            return {"loss": 0.0 * devices.touch(data, names)}

    model = Drain()
    model.compile(optimizer="sgd", jit_compile=False)
    return model
