"""Cats and dogs at 128x128 pixels with 64 filters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from workloads import pets, trees
from workloads.pets import (
    CHANGES,
    DATA,
    OPTIMIZATIONS,
    PARAMS,
    SAMPLES_PER_EPOCH,
    SOURCE,
    STAGES,
    TUNED,
    V100,
    V100_OVER_XEONS,
)
from workloads.protocol import Published, Workload

workload = Workload(
    name="cats-dogs-128",
    title="Cats and dogs at 128x128, 64 filters",
    model="3 x (Conv 64 3x3 relu, MaxPool), Flatten, Dense 128 relu, Dropout 0.5, Dense 1 sigmoid; "
    "128x128 pixels",
    data=DATA,
    batch_size=32,
    epochs=25,
    samples_per_epoch=SAMPLES_PER_EPOCH,
    optimizer="Adam",
    loss="binary cross-entropy",
    params={**PARAMS, "side": 128},
    tuned=TUNED,
    changes=CHANGES,
    stages=STAGES,
    optimizations=OPTIMIZATIONS,
    published=(
        Published(
            source=SOURCE,
            system=V100,
            device="gpu",
            value=333.0,
            unit="samples/s",
        ),
        Published(
            source=SOURCE,
            system=V100,
            device="gpu",
            value=0.94,
            unit="accuracy",
        ),
        Published(
            source=SOURCE,
            system=V100,
            device="gpu",
            value=0.5,
            unit="utilisation",
            note="about half",
        ),
        Published(
            source=SOURCE,
            system=V100_OVER_XEONS,
            device="gpu",
            value=23.0,
            unit="ratio",
        ),
    ),
    source=SOURCE,
    suite="extra",
    min_accuracy=0.7,
)


def model(params: Mapping[str, Any]) -> tf.keras.Model:
    """Return the compiled model."""
    return pets.network(params, filters=(64, 64, 64), dropout=0.5)


dataset = trees.image_stages
in_memory = trees.in_memory
