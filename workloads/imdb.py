"""Reviews of films: Keras' example of two bidirectional LSTM layers, and TensorFlow's tutorial with an average."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from workloads import placement
from workloads.author import Split, Stage
from workloads.protocol import RARE, Change, Data, Optimization, Published, Workload

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

lstm = Workload(
    name="imdb-lstm",
    title="Film reviews, bidirectional LSTM",
    model="Embedding 20000 x 128, 2 x bidirectional LSTM 64 over 200 tokens, Dense 1 sigmoid",
    data=Data(
        name="imdb", shape=(500,), classes=2, train=25_000, test=2_500, dtype="uint16", vocabulary=20_000
    ),
    batch_size=32,
    epochs=2,
    optimizer="Adam",
    loss="binary cross-entropy",
    # cuDNN's kernels cannot be compiled by XLA: on a GPU it is one or the other (see the optimizations).
    params={"jit_compile": False, "use_cudnn": True, "words": 20_000, "length": 200},
    tuned={
        "feed": "resident",
        "cpu:steps_per_execution": 5,
        "gpu:steps_per_execution": 50,
        "gpu:batch_size": 256,
    },
    changes=(
        Change(
            what="batch_size",
            before="32",
            after="256",
            why="200 steps in time follow each other whatever the batch: a larger one fills the device for "
            "nearly the same time; it also changes how the model learns",
        ),
    ),
    stages=STAGES,
    optimizations=(
        Optimization(
            name="generic-kernel",
            params={"use_cudnn": False},
            device="gpu",
            why="the generic while loop, to show what cuDNN's kernel gains",
        ),
        Optimization(
            name="generic-xla",
            params={"use_cudnn": False, "jit_compile": True},
            after="opt:generic-kernel",
            device="gpu",
            why="XLA compiles the generic loop, which it cannot do with cuDNN's kernel",
        ),
        Optimization(
            name="resident",
            params={"feed": "resident", "steps_per_execution": 50},
            device="gpu",
            why="padded once, the reviews stay on the device, and one call runs 50 steps",
        ),
    ),
    published=(
        COLAB_CPU,
        COLAB_GPU,
        Published(
            source="Training article, 2020",
            system="Colab, GPU over CPU",
            device="gpu",
            value=13.76,
            unit="ratio",
            note="a ratio over Colab's 2 virtual CPUs; more cores make it smaller",
        ),
    ),
    source="Training article, 2020 (Colab); layers of Keras' example “Bidirectional LSTM on IMDB”, 2020",
    suite="extra",
    min_accuracy=0.6,
    builder="lstm_model",
)

pooled = Workload(
    name="imdb-pooled",
    title="Film reviews, embedding and average",
    model="Embedding 10000 x 16, dropout 0.2, average over 250 tokens, dropout 0.2, Dense 1 sigmoid",
    data=Data(
        name="imdb", shape=(500,), classes=2, train=25_000, test=25_000, dtype="uint16", vocabulary=20_000
    ),
    batch_size=32,
    epochs=10,
    optimizer="Adam",
    loss="binary cross-entropy",
    # Published under Keras 2, which uses XLA only when asked; Keras 3 would turn it on by itself on a GPU.
    params={"jit_compile": False, "words": 10_000, "length": 250},
    tuned={
        "feed": "resident",
        "gpu:jit_compile": True,
        "cpu:steps_per_execution": 50,
        "gpu:steps_per_execution": 200,
    },
    stages=STAGES,
    optimizations=(
        Optimization(
            name="steps-per-execution",
            params={"steps_per_execution": 50},
            why="one call from Python now runs 50 steps: launching a step costs more than computing it",
        ),
        Optimization(
            name="resident",
            params={"feed": "resident", "steps_per_execution": 50},
            after="opt:steps-per-execution",
            why="padded once, the reviews stay on the device; no pipeline runs during training",
        ),
    ),
    published=(
        COLAB_CPU,
        COLAB_GPU,
        Published(
            source="Training article, 2020",
            system="Colab, GPU over CPU",
            device="gpu",
            value=13.76,
            unit="ratio",
            note="an average over an embedding is little arithmetic: expect less than a recurrent model's",
        ),
    ),
    source="Training article, 2020 (Colab); layers of TensorFlow's tutorial “Basic text classification”",
    suite="extra",
    min_accuracy=0.6,
    builder="pooled_model",
)

workloads = (lstm, pooled)


def lstm_model(params: Mapping[str, Any]) -> tf.keras.Model:
    """Return the compiled recurrent model."""
    layers = tf.keras.layers
    # Keras 2 takes cuDNN's kernel wherever it can and has no switch for it.
    cudnn = {"use_cudnn": "auto" if params["use_cudnn"] else False} if hasattr(tf.keras, "version") else {}
    built = tf.keras.Sequential(
        [
            layers.Input((params["length"],), dtype="int32"),
            layers.Embedding(params["words"], 128),
            layers.Bidirectional(layers.LSTM(64, return_sequences=True, **cudnn)),
            layers.Bidirectional(layers.LSTM(64, **cudnn)),
            layers.Dense(1, activation="sigmoid", dtype="float32"),
        ]
    )
    built.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
    return built


def pooled_model(params: Mapping[str, Any]) -> tf.keras.Model:
    """Return the compiled model that averages."""
    layers = tf.keras.layers
    built = tf.keras.Sequential(
        [
            layers.Input((params["length"],), dtype="int32"),
            layers.Embedding(params["words"], 16),
            layers.Dropout(0.2),
            layers.GlobalAveragePooling1D(),
            layers.Dropout(0.2),
            layers.Dense(1, activation="sigmoid", dtype="float32"),
        ]
    )
    built.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
    return built


def dataset(params: Mapping[str, Any], data_dir: str) -> Sequence[Stage]:
    """Return the stages of the pipeline: reviews as stored, their words limited, padded, cached, shuffled into batches.

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


def facts(params: Mapping[str, Any]) -> Mapping[str, str]:
    """Say which kernel the recurrent layers are given, from the graph that TensorFlow placed."""
    if "use_cudnn" not in params:
        return {}
    with tf.device(params["device"]):
        batch = tf.constant(np.ones((params["batch_size"], params["length"]), np.int32))
        kernel = placement.recurrent_kernel(lstm_model(params), batch, jit=bool(params["jit_compile"]))
    return {"recurrent kernel": kernel}
