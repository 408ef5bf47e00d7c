"""Inference with constant weights, which are not converted to half precision for every batch."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf


class ConstantWeights(keras.Model):
    """Predict with the current weights of `network`, as constants in its compute dtype."""

    def __init__(self, network: keras.Model) -> None:
        super().__init__()
        self.network = network
        self.constants = [
            [np.asarray(weight).astype(network.compute_dtype) for weight in part]
            for part in (network.trainable_variables, network.non_trainable_variables)
        ]

    def call(self, inputs: Any) -> Any:
        """Return the network's outputs."""
        trained, others = ([tf.constant(weight) for weight in part] for part in self.constants)
        return self.network.stateless_call(trained, others, inputs, training=False)[0]
