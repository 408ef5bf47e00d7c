"""What the text classifiers share: published times, and their pipeline over tokenised reviews."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from workloads.author import Split, Stage
from workloads.protocol import RARE, Published

STAGES = ("read", "vectorise", "pad", "cache", "batch", "prefetch")

COLAB_CPU = Published(
    source="Training article, 2020",
    system="Colab, its CPU",
    device="cpu",
    value=198.2,
    unit="s",
    note="text classification; layers and data are not printed, so compare the ratio, not the time",
)
COLAB_GPU = Published(
    source="Training article, 2020",
    system="Colab, its GPU",
    device="gpu",
    value=14.4,
    unit="s",
    note="text classification; layers and data are not printed, so compare the ratio, not the time",
)


def stages(params: Mapping[str, Any], data_dir: str) -> Sequence[Stage]:
    """Return the pipeline: reviews as stored, their words limited, padded, cached, shuffled into batches.

    Args:
        params: words, the vocabulary of the model; length, tokens of each padded review; batch_size.
        data_dir: the folder of the arrays.
    """
    x = np.load(f"{data_dir}/x_train.npy", mmap_mode="r")
    y = np.load(f"{data_dir}/y_train.npy")
    length = params["length"]

    def vectorise(review: Any, label: Any) -> tuple[Any, Any]:
        tokens = tf.cast(review, tf.int32)
        tokens = tokens[: tf.math.count_nonzero(tokens, dtype=tf.int32)]
        return tf.where(tokens < params["words"], tokens, RARE), label

    def pad(tokens: Any, label: Any) -> tuple[Any, Any]:
        tokens = tokens[-length:]
        padded = tf.pad(tokens, [[length - tf.size(tokens), 0]])
        return tf.ensure_shape(padded, [length]), tf.cast(tf.expand_dims(label, -1), tf.float32)

    return (
        ("read", lambda: tf.data.Dataset.from_tensor_slices((x, y))),
        ("vectorise", lambda before: before.map(vectorise)),
        ("pad", lambda before: before.map(pad)),
        ("cache", lambda before: before.cache()),
        (
            "batch",
            lambda before: before.shuffle(len(x)).batch(params["batch_size"], drop_remainder=True),
        ),
        ("prefetch", lambda before: before.prefetch(tf.data.AUTOTUNE)),
    )


def in_memory(params: Mapping[str, Any], data_dir: str, part: str) -> Split:
    """Return what the pipeline gives as arrays: tokens int32[n, length], padded in front; labels [n, 1]."""
    stored = np.load(f"{data_dir}/x_{part}.npy", mmap_mode="r")
    labels = np.load(f"{data_dir}/y_{part}.npy")
    return padded(stored, params["words"], params["length"]), labels.astype(np.float32)[:, None]


def padded(reviews: Any, words: int, length: int) -> np.ndarray[Any, Any]:
    """Keep the last `length` tokens of each review, zeros in front, ids from `words` on as the rare word."""
    reviews = np.asarray(reviews).astype(np.int32)
    counts = np.count_nonzero(reviews, axis=1)
    columns = counts[:, None] - length + np.arange(length)
    tokens = np.take_along_axis(reviews, np.maximum(columns, 0), axis=1)
    tokens[tokens >= words] = RARE
    tokens[columns < 0] = 0
    return tokens
