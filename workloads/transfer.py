"""One image classifier with a frozen backbone (transfer learning), or trained from scratch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from workloads.protocol import Data, Workload

SIDE = 96  # the smallest side for which ImageNet weights are published
CLASSES = 10
MOMENTUM = 0.9
# From Keras' guide to transfer learning.
DROPOUT, LEARNING_RATE = 0.2, 1e-3
_NOISE_SEED, _NOISE_IMAGES, _NOISE_CELLS = 7, 32, 8

DATA = Data(name="cifar10", shape=(32, 32, 3), classes=10, train=10_000, test=1_000)
TUNED = {
    "feed": "resident",
    "gpu:jit_compile": True,
    "gpu:precision": "fp16",
    "cpu:steps_per_execution": 5,
    "gpu:steps_per_execution": 50,
}
SHARED: dict[str, Any] = {
    "data": DATA,
    "batch_size": 32,
    "epochs": 10,
    "optimizer": "Adam 0.001",
    "loss": "sparse categorical cross-entropy",
    "params": {"jit_compile": False},
    "tuned": TUNED,
    "optimizations": {"xla": {"gpu:jit_compile": True}, "fp16": {"gpu:precision": "fp16"}},
    "source": "RTX 3070 and Ryzen 5900X article; Keras' guide to transfer learning",
    "suite": "extra",
}

transfer_learning = Workload(
    **SHARED,
    name="transfer-learning",
    title="Image classifier, transfer learning",
    model="MobileNetV2 96x96, frozen; dropout 0.2, Dense 10 softmax",
    takes_weights=True,
    # No requirement: a head learns little on a frozen random backbone, and the weights file may hold
    # anything.
    min_accuracy=0.0,
    builder="transfer_learning_model",
)

from_scratch = Workload(
    **SHARED,
    name="from-scratch",
    title="Image classifier, from scratch",
    model="MobileNetV2 96x96, fully trained; dropout 0.2, Dense 10 softmax",
    min_accuracy=0.7,
    builder="from_scratch_model",
)

workloads = (transfer_learning, from_scratch)


def _classifier(params: Mapping[str, Any], *, frozen: bool) -> tf.keras.Model:
    """Return the compiled model, float32 images [n, 32, 32, 3] in 0..1 -> probabilities [n, 10].

    Args:
        params: weights, the path of the backbone's weights, "" for seeded random ones.
        frozen: train only the head.
    """
    layers = tf.keras.layers
    weights = params.get("weights") or None
    backbone = tf.keras.applications.MobileNetV2(
        input_shape=(SIDE, SIDE, 3), include_top=False, weights=weights, pooling="avg"
    )
    if frozen and weights is None:
        _calibrate(backbone)
    if not frozen:
        # Moving averages must adapt within tens of steps. The published momentum (0.999, for ImageNet) lags
        # by epochs: 94 % accuracy on training images and 10 % on held-out ones.
        for layer in _norm_layers(backbone):
            layer.momentum = MOMENTUM
    backbone.trainable = not frozen
    inputs = layers.Input((32, 32, 3))
    x = layers.Resizing(SIDE, SIDE)(layers.Rescaling(2.0, -1.0)(inputs))
    x = backbone(x, training=False) if frozen else backbone(x)
    x = layers.Dropout(DROPOUT)(x)
    x = layers.Dense(CLASSES)(x)
    outputs = layers.Activation("softmax", dtype="float32")(x)
    built = tf.keras.Model(inputs, outputs)
    optimizer = tf.keras.optimizers.Adam(LEARNING_RATE)
    built.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    return built


transfer_learning_model = partial(_classifier, frozen=True)
from_scratch_model = partial(_classifier, frozen=False)


def _norm_layers(backbone: tf.keras.Model) -> list[Any]:
    return [layer for layer in backbone.layers if isinstance(layer, tf.keras.layers.BatchNormalization)]


def _calibrate(backbone: tf.keras.Model) -> None:
    """Calibrate the normalisation of random layers on smooth noise.

    In an untrained network the signal fades from layer to layer, so that a head could not learn.
    """
    cells = np.random.default_rng(_NOISE_SEED).normal(0, 0.6, (_NOISE_IMAGES, _NOISE_CELLS, _NOISE_CELLS, 3))
    noise = tf.clip_by_value(tf.image.resize(tf.constant(cells, tf.float32), (SIDE, SIDE)), -1.0, 1.0)
    normalising = _norm_layers(backbone)
    momenta = [layer.momentum for layer in normalising]
    for layer in normalising:
        layer.momentum = 0.0
    backbone(noise, training=True)
    for layer, momentum in zip(normalising, momenta, strict=True):
        layer.momentum = momentum


def facts(params: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the source of the backbone's initial weights."""
    path = params.get("weights")
    weights = f"from the file {Path(path).name}" if path else "seeded random weights; --weights was not given"
    return {"weights of the backbone": weights}
