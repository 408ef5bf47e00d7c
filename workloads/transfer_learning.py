"""An image classifier on top of a backbone that is kept as it is: transfer learning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from workloads import transfer
from workloads.protocol import Data, Rung, Workload
from workloads.transfer import REMARKS

workload = Workload(
    name="transfer-learning",
    title="Image classifier, transfer learning",
    model="MobileNetV2 96x96, frozen; dropout 0.2, Dense 10 softmax",
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
    takes_weights=True,
    source="RTX 3070 and Ryzen 5900X article; Keras' guide to transfer learning",
    suite="extra",
    # Nothing is asserted: on random weights that are kept as they are a head has little to go by, and which
    # weights a file has is not known here.
    min_accuracy=0.0,
)


def model(params: Mapping[str, Any]) -> tf.keras.Model:
    """Return the compiled model."""
    return transfer.classifier(params, frozen=True)


def facts(params: Mapping[str, Any]) -> Mapping[str, str]:
    """Say which weights the backbone has."""
    return transfer.weights_fact(params)
