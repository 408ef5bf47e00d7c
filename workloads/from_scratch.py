"""The same image classifier as in transfer-learning, all of it trained from seeded weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from workloads import transfer
from workloads.protocol import Data, Rung, Workload
from workloads.transfer import REMARKS

workload = Workload(
    name="from-scratch",
    title="Image classifier, from scratch",
    model="MobileNetV2 96x96, all of it trained; dropout 0.2, Dense 10 softmax",
    data=Data(name="cifar10", shape=(32, 32, 3), classes=10, train=10_000, test=1_000),
    batch_size=32,
    epochs=10,
    optimizer="Adam 0.001",
    loss="sparse categorical cross-entropy",
    params={"jit_compile": False},
    tuned={
        "feed": "resident",
        "gpu:jit_compile": True,
        "gpu:precision": "fp16",
        "cpu:steps_per_execution": 5,
        "gpu:steps_per_execution": 50,
    },
    ladder=(
        Rung(
            name="xla",
            params={"jit_compile": True},
            device="gpu",
            why="XLA fuses normalisation and activation into the convolutions' neighbours",
        ),
        Rung(
            name="fp16",
            params={"precision": "fp16"},
            device="gpu",
            why="half-width numbers use the tensor cores and halve the memory traffic",
        ),
    ),
    remarks=REMARKS,
    source="RTX 3070 and Ryzen 5900X article; Keras' guide to transfer learning",
    suite="extra",
    min_accuracy=0.2,
)


def model(params: Mapping[str, Any]) -> tf.keras.Model:
    """Return the compiled model."""
    return transfer.classifier(params, frozen=False)


def facts(params: Mapping[str, Any]) -> Mapping[str, str]:
    """Say which weights the backbone has."""
    return transfer.weights_fact(params)
