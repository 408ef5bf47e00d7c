"""Reviews of films, sorted by two bidirectional LSTM layers: Keras' example of 2020."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from workloads import placement, text
from workloads.author import Split, Stage
from workloads.protocol import Change, Data, Optimization, Published, Workload
from workloads.text import COLAB_CPU, COLAB_GPU, STAGES

workload = Workload(
    name="imdb-lstm",
    title="Reviews of films, bidirectional LSTM",
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
            why="the generic while loop, to show what cuDNN's kernel gives: it should be slower",
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
            why="padded once, the reviews lie on the device, and one call runs 50 steps",
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
)


def model(params: Mapping[str, Any]) -> tf.keras.Model:
    """Return the compiled model."""
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


def dataset(params: Mapping[str, Any], data_dir: str) -> Sequence[Stage]:
    """Return the pipeline's stages."""
    return text.stages(params, data_dir)


def in_memory(params: Mapping[str, Any], data_dir: str, part: str) -> Split:
    """Return a whole part: padded reviews, int32[n, length], and labels float32[n, 1]."""
    return text.in_memory(params, data_dir, part)


def facts(params: Mapping[str, Any]) -> Mapping[str, str]:
    """Say which kernel the recurrent layers are given, from the graph that TensorFlow placed."""
    with tf.device(params["device"]):
        batch = tf.constant(np.ones((params["batch_size"], params["length"]), np.int32))
        kernel = placement.recurrent_kernel(model(params), batch, jit=bool(params["jit_compile"]))
    return {"recurrent kernel": kernel}
