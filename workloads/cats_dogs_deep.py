"""Cats and dogs with 32 convolutions: the variant whose arithmetic, at last, keeps a GPU busy."""

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
    XEONS,
)
from workloads.protocol import Published, Workload

workload = Workload(
    name="cats-dogs-deep",
    title="Cats and dogs, 32 convolutions",
    model="32 x (Conv 3x3, BatchNorm, ReLU) of 32 to 256 filters in 5 groups, MaxPool after each, "
    "GlobalAveragePooling, Dense 1 sigmoid; 128x128 pixels",
    data=DATA,
    batch_size=32,
    epochs=25,
    samples_per_epoch=SAMPLES_PER_EPOCH,
    optimizer="Adam",
    loss="binary cross-entropy",
    # A step of 32 takes many seconds on a CPU.
    params={**PARAMS, "side": 128, "cpu:batch_size": 8},
    tuned=TUNED,
    changes=CHANGES,
    stages=STAGES,
    optimizations=OPTIMIZATIONS,
    published=(
        Published(
            source=SOURCE,
            system=XEONS,
            device="cpu",
            value=3.0,
            unit="samples/s",
            note="one digit; the blog says 30 and more convolutions, not which",
        ),
        Published(
            source=SOURCE,
            system=V100_OVER_XEONS,
            device="gpu",
            value=100.0,
            unit="ratio",
            note="about 100",
        ),
        Published(
            source=SOURCE,
            system=V100,
            device="gpu",
            value=1.0,
            unit="utilisation",
        ),
    ),
    source=SOURCE,
    suite="extra",
    min_accuracy=0.7,
)


def model(params: Mapping[str, Any]) -> tf.keras.Model:
    """Return the compiled model."""
    return pets.deep_network(params, groups=((6, 32), (6, 64), (7, 128), (7, 256), (6, 256)))


dataset = trees.image_stages
in_memory = trees.in_memory
