"""Film reviews: Keras' bidirectional LSTM example, and TensorFlow's tutorial with average pooling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from workloads.protocol import RARE, Data, Published, Split, Stage, Workload

COLAB: dict[str, Any] = {
    "source": "Training article, 2020",
    "note": "text classification; layers and data are not printed: compare the ratio, not the times; it is over "
    "Colab's 2 virtual CPUs, and the less arithmetic a model has, the smaller it is",
}
# Shared by both.
SHARED: dict[str, Any] = {
    "batch_size": 32,
    "optimizer": "Adam",
    "loss": "binary cross-entropy",
    "stages": ("read", "vectorise", "pad", "cache", "batch", "prefetch"),
    "published": (
        Published(**COLAB, system="Colab, its CPU", device="cpu", value=198.2, unit="s"),
        Published(**COLAB, system="Colab, its GPU", device="gpu", value=14.4, unit="s"),
        Published(**COLAB, system="Colab, GPU over CPU", device="gpu", value=13.76, unit="ratio"),
    ),
    "suite": "extra",
    "min_accuracy": 0.6,
}

lstm = Workload(
    **SHARED,
    name="imdb-lstm",
    title="Film reviews, bidirectional LSTM",
    model="Embedding 20000 x 128, 2 x bidirectional LSTM 64 over 200 tokens, Dense 1 sigmoid",
    data=Data(
        name="imdb", shape=(500,), classes=2, train=25_000, test=2_500, dtype="uint16", vocabulary=20_000
    ),
    epochs=2,
    # XLA cannot compile cuDNN's kernels: a GPU uses one or the other (see the optimizations).
    params={"jit_compile": False, "use_cudnn": True, "words": 20_000, "length": 200},
    tuned={
        "feed": "resident",
        "cpu:steps_per_execution": 5,
        "gpu:steps_per_execution": 50,
        "gpu:batch_size": 256,
    },
    optimizations={
        "generic-kernel": {"gpu:use_cudnn": False},
        "generic-xla": {"gpu:use_cudnn": False, "gpu:jit_compile": True},
        "resident": {"gpu:feed": "resident", "gpu:steps_per_execution": 50},
    },
    source="Training article, 2020 (Colab); layers of Keras' example “Bidirectional LSTM on IMDB”, 2020",
    builder="lstm_model",
)

pooled = Workload(
    **SHARED,
    name="imdb-pooled",
    title="Film reviews, embedding and average",
    model="Embedding 10000 x 16, dropout 0.2, average over 250 tokens, dropout 0.2, Dense 1 sigmoid",
    data=Data(
        name="imdb", shape=(500,), classes=2, train=25_000, test=25_000, dtype="uint16", vocabulary=20_000
    ),
    epochs=10,
    # Published with Keras 2, which uses XLA only on request; Keras 3 enables it on GPUs by default.
    params={"jit_compile": False, "words": 10_000, "length": 250},
    tuned={
        "feed": "resident",
        "gpu:jit_compile": True,
        "cpu:steps_per_execution": 50,
        "gpu:steps_per_execution": 200,
    },
    optimizations={
        "steps-per-execution": {"steps_per_execution": 50},
        "resident": {"feed": "resident", "steps_per_execution": 50},
    },
    source="Training article, 2020 (Colab); layers of TensorFlow's tutorial “Basic text classification”",
    builder="pooled_model",
)

workloads = (lstm, pooled)


def lstm_model(params: Mapping[str, Any]) -> tf.keras.Model:
    """Return the compiled recurrent model."""
    layers = tf.keras.layers
    cudnn = "auto" if params["use_cudnn"] else False
    return _compiled(
        [
            layers.Input((params["length"],), dtype="int32"),
            layers.Embedding(params["words"], 128),
            layers.Bidirectional(layers.LSTM(64, return_sequences=True, use_cudnn=cudnn)),
            layers.Bidirectional(layers.LSTM(64, use_cudnn=cudnn)),
        ]
    )


def pooled_model(params: Mapping[str, Any]) -> tf.keras.Model:
    """Return the compiled model with average pooling."""
    layers = tf.keras.layers
    return _compiled(
        [
            layers.Input((params["length"],), dtype="int32"),
            layers.Embedding(params["words"], 16),
            layers.Dropout(0.2),
            layers.GlobalAveragePooling1D(),
            layers.Dropout(0.2),
        ]
    )


def _compiled(layers: list[Any]) -> tf.keras.Model:
    built = tf.keras.Sequential([*layers, tf.keras.layers.Dense(1, activation="sigmoid", dtype="float32")])
    built.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"])
    return built


def dataset(params: Mapping[str, Any], data_dir: str) -> Sequence[Stage]:
    """Return the stages read, vectorise (limits the vocabulary), pad, cache, batch (shuffles), prefetch.

    Args:
        params: words, the vocabulary size; length, tokens per padded review; batch_size.
        data_dir: folder of the arrays.
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
        ("batch", lambda before: before.shuffle(len(x)).batch(params["batch_size"], drop_remainder=True)),
        ("prefetch", lambda before: before.prefetch(tf.data.AUTOTUNE)),
    )


def in_memory(params: Mapping[str, Any], data_dir: str, part: str) -> Split:
    """Return the pipeline's output as arrays: front-padded tokens int32[n, length] and labels [n, 1]."""
    stored = np.load(f"{data_dir}/x_{part}.npy")
    labels = np.load(f"{data_dir}/y_{part}.npy")
    reviews = [review[: np.count_nonzero(review)] for review in stored]
    tokens = tf.keras.utils.pad_sequences(reviews, maxlen=params["length"])
    tokens[tokens >= params["words"]] = RARE
    return tokens, labels.astype(np.float32)[:, None]


def facts(params: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the kernel of the recurrent layers, read from the graph of a step."""
    if "use_cudnn" not in params:
        return {}
    if params["jit_compile"]:
        return {"recurrent kernel": "a loop compiled by XLA"}
    model = lstm_model(params)
    with tf.device(params["device"]):
        batch = tf.TensorSpec((params["batch_size"], params["length"]), tf.int32)
        traced = tf.function(lambda x: model(x, training=True), autograph=False).get_concrete_function(batch)
    operations = {operation.type for operation in traced.graph.get_operations()}
    kernel = "cuDNN (CudnnRNNV3" if "CudnnRNNV3" in operations else "generic while loop (While"
    return {"recurrent kernel": f"{kernel} on {params['device']})"}
