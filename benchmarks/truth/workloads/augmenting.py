"""Training on images in memory that are augmented on the CPU, `rounds` times over."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from simulated import compiled

from workloads.protocol import Data, Workload

SIDE = 128

workload = Workload(
    name="truth-augmenting",
    title="Images in memory, cropped, flipped and recoloured one after another",
    data=Data(name="own", shape=(128, 128, 3), classes=10, train=0, test=0),
    batch_size=8,
    epochs=1,
    params={
        "rounds": 4,
        "threads": 1,
        "prefetch": 2,
        "step_us": 0,
        "sample_us": 3000,
        "real": 0,
        "width": 64,
    },
    stages=("read", "augment", "batch"),
    tuned={"threads": 4},
)


def model(params: dict) -> tf.keras.Model:
    """Return the device."""
    return compiled((SIDE, SIDE, 3), params)


def dataset(params: dict, data_dir: str) -> tuple:
    """Return the pipeline."""
    del data_dir
    images = np.random.default_rng(1).integers(0, 256, (64, SIDE, SIDE, 3), np.uint8)

    def augment(image: tf.Tensor) -> tuple:
        image = tf.cast(image, tf.float32) / 255.0
        for _ in range(params["rounds"]):
            image = tf.image.random_flip_left_right(image)
            image = tf.image.random_saturation(tf.image.random_contrast(image, 0.7, 1.3), 0.7, 1.3)
            image = tf.image.random_hue(image, 0.1)
        return tf.image.random_crop(tf.pad(image, ((4, 4), (4, 4), (0, 0))), (SIDE, SIDE, 3)), 0

    return (
        ("read", lambda: tf.data.Dataset.from_tensor_slices(images).repeat()),
        ("augment", lambda before: before.map(augment, num_parallel_calls=params["threads"])),
        (
            "batch",
            lambda before: before.batch(params["batch_size"], drop_remainder=True).prefetch(
                params["prefetch"]
            ),
        ),
    )
