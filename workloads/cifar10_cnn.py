"""CIFAR-10 with the convolutional network of TensorFlow's tutorial; the host augments the images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import tensorflow as tf

from workloads.components.augment import OnDevice
from workloads.protocol import Data, Published, Stage, Workload

SIDE = 24  # of a crop, in pixels
CLASSES = 10
# The tutorial's augmentation: maximum brightness change (of 255) and range of contrast factors.
BRIGHTNESS = 63.0
CONTRAST = (0.2, 1.8)
BUFFER = 4
# The blog's systems.
V100: dict[str, Any] = {"source": "Hosting blog", "system": "Tesla V100", "device": "gpu"}
XEONS: dict[str, Any] = {"source": "Hosting blog", "system": "2x Xeon Silver 4110", "device": "cpu"}
VM: dict[str, Any] = {**XEONS, "system": "VirtualBox VM on 2x Xeon Silver 4110"}

workload = Workload(
    name="cifar10-cnn",
    title="CIFAR-10, convolutional network",
    model="Conv 64 5x5 relu, MaxPool 3/2, LRN, Conv 64 5x5 relu, LRN, MaxPool 3/2, Flatten, Dense 384 relu, "
    "Dense 192 relu, Dense 10; crops of 24x24",
    data=Data(name="cifar10", shape=(32, 32, 3), classes=10, train=50_000, test=10_000),
    batch_size=512,
    epochs=10,
    optimizer="SGD 0.1",
    loss="sparse categorical cross-entropy",
    # Published under TensorFlow 1, without XLA; the tutorial fills its queues with 16 threads.
    params={"jit_compile": False, "augment": True, "threads": 16, "preprocess": "host"},
    tuned={
        "feed": "resident",
        "preprocess": "device",
        "cpu:steps_per_execution": 1,
        "gpu:jit_compile": True,
        "gpu:steps_per_execution": 20,
    },
    stages=("read", "augment", "batch", "prefetch"),
    optimizations={
        "batch-128": {"batch_size": 128},  # the tutorial's own, which the blog raised
        "no-augment": {"augment": False},
        "device-augment": {"preprocess": "device"},
        "resident": {"preprocess": "device", "feed": "resident"},
    },
    published=(
        Published(
            **V100,
            value=15_000.0,
            upto=17_000.0,
            unit="samples/s",
            note="batch 512; the blog does not print the layers: taken to be TensorFlow's tutorial",
        ),
        Published(**V100, value=0.45, unit="utilisation"),
        Published(**XEONS, value=210.0, unit="samples/s", note="16 cores"),
        Published(**VM, value=90.0, unit="samples/s"),
    ),
    source="Hosting blog",
    suite="extra",
    min_accuracy=0.3,
)


class LocalResponse(tf.keras.layers.Layer):
    """Local response normalisation over channels, with the tutorial's constants."""

    def call(self, inputs: Any) -> Any:
        """Normalise in float32, the only type that the kernel supports."""
        normalised = tf.nn.local_response_normalization(
            tf.cast(inputs, tf.float32), depth_radius=4, bias=1.0, alpha=0.001 / 9.0, beta=0.75
        )
        return tf.cast(normalised, self.compute_dtype)


def preprocessed(images: Any, *, random: bool) -> Any:
    """Return standardised float32[n, 24, 24, 3] from uint8[n, 32, 32, 3], augmented or centre-cropped."""
    images = tf.cast(images, tf.float32)
    images = augmented(images) if random else tf.image.resize_with_crop_or_pad(images, SIDE, SIDE)
    return tf.image.per_image_standardization(images)


def augmented(images: Any) -> Any:
    """Randomly crop, flip and change brightness and contrast of float32[n, height, width, 3] images."""
    count = tf.shape(images)[0]
    _, height, width, channels = images.shape
    top = tf.random.uniform([count, 1], 0, height - SIDE + 1, tf.int32)
    left = tf.random.uniform([count, 1], 0, width - SIDE + 1, tf.int32)
    rows, columns = top + tf.range(SIDE), left + tf.range(SIDE)
    mirrored = tf.random.uniform([count, 1]) < 0.5
    columns = tf.where(mirrored, columns[:, ::-1], columns)
    indices = tf.reshape(rows[:, :, None] * width + columns[:, None, :], [count, SIDE * SIDE])
    flat = tf.reshape(images, [count, height * width, channels])
    crops = tf.reshape(tf.gather(flat, indices, batch_dims=1), [count, SIDE, SIDE, channels])
    crops += tf.random.uniform([count, 1, 1, 1], -BRIGHTNESS, BRIGHTNESS)
    mean = tf.reduce_mean(crops, axis=(1, 2), keepdims=True)
    return (crops - mean) * tf.random.uniform([count, 1, 1, 1], *CONTRAST) + mean


def model(params: Mapping[str, Any]) -> tf.keras.Model:
    """Return the compiled model."""
    layers = tf.keras.layers
    inputs: tuple[Any, ...] = (layers.Input((SIDE, SIDE, 3)),)
    if params["preprocess"] == "device":
        inputs = (layers.Input((32, 32, 3), dtype="uint8"), OnDevice(preprocessed, random=params["augment"]))
    built = tf.keras.Sequential(
        [
            *inputs,
            layers.Conv2D(64, 5, padding="same", activation="relu"),
            layers.MaxPooling2D(3, 2, padding="same"),
            LocalResponse(),
            layers.Conv2D(64, 5, padding="same", activation="relu"),
            LocalResponse(),
            layers.MaxPooling2D(3, 2, padding="same"),
            layers.Flatten(),
            layers.Dense(384, activation="relu"),
            layers.Dense(192, activation="relu"),
            layers.Dense(CLASSES, activation="softmax", dtype="float32"),
        ]
    )
    built.compile(
        optimizer=tf.keras.optimizers.SGD(0.1), loss="sparse_categorical_crossentropy", metrics=["accuracy"]
    )
    return built


def dataset(params: Mapping[str, Any], data_dir: str) -> Sequence[Stage]:
    """Return the stages read, augment, batch and prefetch."""
    if params["preprocess"] not in ("host", "device"):
        raise ValueError(f"preprocess={params['preprocess']!r} is not one of host, device.")

    def augment(image: Any, label: Any) -> tuple[Any, Any]:
        return preprocessed(image[None], random=params["augment"])[0], label

    def read() -> Any:
        x, y = _arrays(data_dir, "train")
        return tf.data.Dataset.from_tensor_slices((x, y)).shuffle(len(x) // 4)

    return (
        ("read", read),
        (
            "augment",
            lambda before: (
                before.map(augment, params["threads"]) if params["preprocess"] == "host" else before
            ),
        ),
        ("batch", lambda before: before.batch(params["batch_size"], drop_remainder=True)),
        ("prefetch", lambda before: before.prefetch(BUFFER)),
    )


def in_memory(params: Mapping[str, Any], data_dir: str, part: str) -> tuple[Any, Any]:
    """Return a whole split as the model expects it: uint8 for "device", standardised crops for "host"."""
    x, y = _arrays(data_dir, part)
    if params["preprocess"] == "device":
        return x, y
    with tf.device("CPU:0"):
        return preprocessed(x, random=False).numpy(), y


@lru_cache(maxsize=2)
def _arrays(data_dir: str, part: str) -> tuple[Any, Any]:
    return np.load(f"{data_dir}/x_{part}.npy"), np.load(f"{data_dir}/y_{part}.npy").astype(np.int32)
