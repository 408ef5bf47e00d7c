"""Keras' Python loaders (PyDataset) as an input: held still while other variants run, and drained as by fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from workloads import devices
from workloads.turns import Gate


def is_loader(source: Any) -> bool:
    """Tell whether an input is a Python loader instead of a tf.data pipeline."""
    return isinstance(source, getattr(tf.keras.utils, "PyDataset", ()))


def gated(source: Any, gate: Gate) -> Any:
    """Return `source` behind `gate`. Worker processes cannot see a gate of this one: they are left alone."""
    if source.use_multiprocessing:
        return source

    class Gated(tf.keras.utils.PyDataset):
        """A loader behind a gate."""

        @property
        def num_batches(self) -> int | None:
            """Return the loader's own."""
            return source.num_batches

        def __getitem__(self, index: int) -> Any:
            """Wait for the gate and return the loader's batch."""
            gate.wait()
            return source[index]

        def on_epoch_begin(self) -> None:
            """Pass it on."""
            source.on_epoch_begin()

        def on_epoch_end(self) -> None:
            """Pass it on."""
            source.on_epoch_end()

    return Gated(workers=source.workers, max_queue_size=source.max_queue_size)


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
