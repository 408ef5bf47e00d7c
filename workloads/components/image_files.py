"""Input pipelines for JPEG files <split>/<class>/<name>.jpg: tf.data, Keras' loader, or decoded once.

Image workloads use them as `dataset` and `in_memory`; `image_stages` lists the parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from workloads.components import augment, keras_loader
from workloads.protocol import Stage

# Prefetched elements. Fixed, because an autotuned buffer grows while other variants run and makes the first
# steps after them too fast.
BUFFER = 4
DECODE_BATCH = 250


def image_stages(params: Mapping[str, Any], data_dir: str) -> Sequence[Stage]:
    """Return the stages read, decode, resize, augment, batch and prefetch.

    Args:
        params: loader ("keras": Keras' Python loader, as published; "tfdata"), side (pixels), augment, and
            preprocess ("host": augmented float32 in 0..1; "device": uint8, preprocessed by the model). Keras
            loader only: workers, queue_size. tf.data only: cache (decode once, keep uint8).
        data_dir: parent folder of the splits.

    Raises:
        ValueError: an invalid parameter value.
    """
    _check(params)
    if params["loader"] == "keras":
        return keras_loader.stages(params, data_dir)
    side, cache = params["side"], params["cache"]

    def read() -> Any:
        paths, labels = list_files(data_dir, "train")
        files = tf.data.Dataset.from_tensor_slices((paths, labels))
        if not cache:
            files = files.shuffle(len(paths)).repeat()
        return files.map(lambda path, label: (tf.io.read_file(path), label), tf.data.AUTOTUNE)

    def resize(before: Any) -> Any:
        sized = before.map(lambda image, label: (resized(image, side), label), tf.data.AUTOTUNE)
        if not cache:
            return sized
        images, labels = decoded(data_dir, "train", side)
        return tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(images)).repeat()

    return (
        ("read", read),
        (
            "decode",
            lambda before: before.map(lambda content, label: (decode(content), label), tf.data.AUTOTUNE),
        ),
        ("resize", resize),
        ("augment", lambda before: _augmented(before, params)),
        ("batch", lambda before: before.batch(params["batch_size"], drop_remainder=True)),
        ("prefetch", lambda before: before.prefetch(BUFFER)),
    )


def list_files(data_dir: str, part: str) -> tuple[list[str], np.ndarray[Any, Any]]:
    """Return a split's files in a fixed order, and their labels as float32 for binary cross-entropy."""
    folders = sorted(path for path in Path(data_dir, part).iterdir() if path.is_dir())
    paths = [[str(path) for path in sorted(folder.glob("*.jpg"))] for folder in folders]
    labels = np.repeat(np.arange(len(folders), dtype=np.float32), [len(each) for each in paths])
    return [path for each in paths for path in each], labels


def decode(content: Any) -> Any:
    """Decode a JPEG to uint8[height, width, 3]."""
    return tf.io.decode_jpeg(content, channels=3)


def resized(image: Any, side: int) -> Any:
    """Resize to uint8[side, side, 3] by nearest neighbour, like flow_from_directory."""
    image = tf.image.resize(image, (side, side), tf.image.ResizeMethod.NEAREST_NEIGHBOR)
    return tf.ensure_shape(image, (side, side, 3))


def in_memory(params: Mapping[str, Any], data_dir: str, part: str) -> tuple[Any, Any]:
    """Return a whole split with labels: uint8 for preprocess="device", float32 in 0..1 for "host"."""
    images, labels = decoded(data_dir, part, params["side"])
    if params["preprocess"] == "host":
        return images.astype(np.float32) / np.float32(augment.WHITE), labels
    return images, labels


# Shared by two variants and the evaluation; a split at 64 x 64 pixels is 100 MB.
@lru_cache(maxsize=4)
def decoded(data_dir: str, part: str, side: int) -> tuple[Any, Any]:
    """Decode a split on all CPUs: uint8[n, side, side, 3] and labels float32[n]."""
    paths, labels = list_files(data_dir, part)
    with tf.device("CPU:0"):
        files = tf.data.Dataset.from_tensor_slices(paths)
        images = files.map(lambda path: resized(decode(tf.io.read_file(path)), side), tf.data.AUTOTUNE)
        images = images.batch(DECODE_BATCH)
        return np.concatenate(list(images.as_numpy_iterator())), labels


def _augmented(before: Any, params: Mapping[str, Any]) -> Any:
    if params["preprocess"] == "device":
        return before
    side = params["side"]

    def scaled(image: Any, label: Any) -> tuple[Any, Any]:
        image = tf.cast(image, tf.float32) / augment.WHITE
        if params["augment"]:
            image = augment.warp_one(image, augment.random_maps(1, side, side)[0])
        return tf.ensure_shape(image, (side, side, 3)), label

    return before.map(scaled, tf.data.AUTOTUNE)


def _check(params: Mapping[str, Any]) -> None:
    for name, values in {"loader": ("keras", "tfdata"), "preprocess": ("host", "device")}.items():
        if params[name] not in values:
            raise ValueError(f"{name}={params[name]!r} is not one of {', '.join(values)}.")
    if params["loader"] == "keras" and params["preprocess"] == "device":
        raise ValueError("loader=keras preprocesses on the host. Use loader=tfdata for preprocess=device.")
