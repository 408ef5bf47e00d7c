"""Reviews of films, sorted by an embedding that is averaged: TensorFlow's tutorial on text classification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from workloads import text
from workloads.author import Split, Stage
from workloads.protocol import Data, Optimization, Published, Workload
from workloads.text import COLAB_CPU, COLAB_GPU, STAGES

workload = Workload(
    name="imdb-pooled",
    title="Reviews of films, embedding and average",
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
            why="padded once, the reviews lie on the device; no pipeline runs beside the training",
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
)


def model(params: Mapping[str, Any]) -> tf.keras.Model:
    """Return the compiled model."""
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
    """Return the pipeline's stages."""
    return text.stages(params, data_dir)


def in_memory(params: Mapping[str, Any], data_dir: str, part: str) -> Split:
    """Return a whole part: padded reviews, int32[n, length], and labels float32[n, 1]."""
    return text.in_memory(params, data_dir, part)
