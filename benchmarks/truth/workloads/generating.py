"""Training on samples that a Python generator parses out of text."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import tensorflow as tf
from simulated import compiled

from workloads.protocol import Data, Workload

workload = Workload(
    name="truth-generating",
    title="Lines of text parsed by a Python generator",
    data=Data(name="own", shape=(64,), classes=10, train=0, test=0),
    batch_size=8,
    epochs=1,
    params={"fields": 20_000, "prefetch": 2, "step_us": 0, "sample_us": 1500, "real": 0, "width": 64},
    stages=("generate", "batch"),
    tuned={"prefetch": 4},
)


def model(params: dict) -> tf.keras.Model:
    """Return the device."""
    return compiled((64,), params)


def dataset(params: dict, data_dir: str) -> tuple:
    """Return the pipeline."""
    del data_dir
    numbers = np.random.default_rng(1).random(params["fields"])
    line = ",".join(f"{number:.6f}" for number in numbers)

    def parse() -> Iterator[tuple]:
        while True:
            fields = [float(field) for field in line.split(",")]
            yield np.resize(np.asarray(fields, np.float32), 64), np.int32(0)

    signature = (tf.TensorSpec((64,), tf.float32), tf.TensorSpec((), tf.int32))
    return (
        ("generate", lambda: tf.data.Dataset.from_generator(parse, output_signature=signature)),
        (
            "batch",
            lambda before: before.batch(params["batch_size"], drop_remainder=True).prefetch(
                params["prefetch"]
            ),
        ),
    )
