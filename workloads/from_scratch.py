"""The same image classifier as in transfer-learning, all of it trained from seeded weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from workloads import transfer
from workloads.protocol import Workload
from workloads.transfer import DATA, OPTIMIZATIONS, REMARKS, TUNED

workload = Workload(
    name="from-scratch",
    title="Image classifier, from scratch",
    model="MobileNetV2 96x96, all of it trained; dropout 0.2, Dense 10 softmax",
    data=DATA,
    batch_size=32,
    epochs=10,
    optimizer="Adam 0.001",
    loss="sparse categorical cross-entropy",
    params={"jit_compile": False},
    tuned=TUNED,
    optimizations=OPTIMIZATIONS,
    remarks=REMARKS,
    source="RTX 3070 and Ryzen 5900X article; Keras' guide to transfer learning",
    suite="extra",
    min_accuracy=0.7,
)


def model(params: Mapping[str, Any]) -> tf.keras.Model:
    """Return the compiled model."""
    return transfer.classifier(params, frozen=False)


def facts(params: Mapping[str, Any]) -> Mapping[str, str]:
    """Say which weights the backbone has."""
    return transfer.weights_fact(params)
