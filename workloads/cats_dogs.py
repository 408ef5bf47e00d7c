"""Cats and dogs with the original small network, fed by Keras' Python loader as in a hosting blog."""

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
    VM,
)
from workloads.protocol import Published, Workload

workload = Workload(
    name="cats-dogs",
    title="Cats and dogs, small CNN on JPEG files",
    model="2 x (Conv 32 3x3 relu, MaxPool), Flatten, Dense 128 relu, Dense 1 sigmoid; 64x64 pixels",
    data=DATA,
    batch_size=32,
    epochs=25,
    samples_per_epoch=SAMPLES_PER_EPOCH,
    optimizer="Adam",
    loss="binary cross-entropy",
    params=PARAMS,
    tuned=TUNED,
    changes=CHANGES,
    stages=STAGES,
    optimizations=OPTIMIZATIONS,
    published=(
        Published(
            source=SOURCE,
            system=VM,
            device="cpu",
            value=47.0,
            unit="samples/s",
        ),
        Published(
            source=SOURCE,
            system=VM,
            device="cpu",
            value=64.0,
            unit="samples/s",
            variant="opt:workers-4-batch-64",
            note="with 4 workers and batch 64",
        ),
        Published(
            source=SOURCE,
            system=V100_OVER_XEONS,
            device="gpu",
            value=4.0,
            unit="ratio",
            note="over bare metal; the blog gives one digit",
        ),
        Published(
            source=SOURCE,
            system=V100,
            device="gpu",
            value=0.0,
            upto=0.1,
            unit="utilisation",
        ),
        Published(
            source=SOURCE,
            system=V100,
            device="gpu",
            value=3.0,
            unit="gain",
            note="about 3x, by workers, batch, queue size and RAM disk only",
        ),
    ),
    source=SOURCE,
    min_accuracy=0.7,
)


def model(params: Mapping[str, Any]) -> tf.keras.Model:
    """Return the compiled model."""
    return pets.network(params, filters=(32, 32))


dataset = trees.image_stages
in_memory = trees.in_memory
