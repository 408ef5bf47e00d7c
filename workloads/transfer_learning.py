"""An image classifier on top of a backbone that is kept as it is: transfer learning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from workloads import transfer
from workloads.protocol import Workload
from workloads.transfer import DATA, OPTIMIZATIONS, REMARKS, TUNED

workload = Workload(
    name="transfer-learning",
    title="Image classifier, transfer learning",
    model="MobileNetV2 96x96, frozen; dropout 0.2, Dense 10 softmax",
    data=DATA,
    batch_size=32,
    epochs=10,
    optimizer="Adam 0.001",
    loss="sparse categorical cross-entropy",
    params={"jit_compile": False},
    tuned=TUNED,
    optimizations=OPTIMIZATIONS,
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
