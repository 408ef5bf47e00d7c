"""Cross-entropy over many classes that makes its gradient in the forward pass, a part of the samples at a time.

Keras' loss writes float32 logits, their probabilities and their gradient; each is larger than all else in the step
of a language model.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

# Products of matrices are fastest if their sizes are multiples of this.
ALIGNED = 128


def chunked_cross_entropy(labels: tf.Tensor, states: tf.Tensor, table: tf.Tensor, chunks: int) -> tf.Tensor:
    """Return the mean cross-entropy of logits `states @ transpose(table)`, float32.

    Args:
        labels: classes, int32[...].
        states: inputs of the last layer, [..., width]; their type is that of the products.
        table: the last layer's matrix, float32[classes, width].
        chunks: parts of the samples, whose number it divides; 0 for TensorFlow's own loss.
    """
    classes, width = table.shape
    labels, states = tf.reshape(labels, [-1]), tf.reshape(states, [-1, width])
    table = tf.cast(table, states.dtype)
    if not chunks:
        logits = tf.cast(tf.matmul(states, table, transpose_b=True), tf.float32)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
    table = tf.pad(table, [[0, -classes % ALIGNED], [0, 0]])

    @tf.custom_gradient
    def run(states: tf.Tensor, table: tf.Tensor) -> tuple[tf.Tensor, Any]:
        scale = 1.0 / tf.cast(tf.shape(states)[0], tf.float32)
        total = tf.zeros([])
        of_states, of_table = [], []
        for part, of_part in zip(tf.split(states, chunks), tf.split(labels, chunks), strict=True):
            rounded = tf.matmul(part, table, transpose_b=True)
            columns = tf.range(table.shape[0])[None]
            logits = tf.where(columns < classes, tf.cast(rounded, tf.float32), -float("inf"))
            peak = tf.reduce_max(logits, axis=1, keepdims=True)
            normaliser = peak + tf.math.log(tf.reduce_sum(tf.exp(logits - peak), axis=1, keepdims=True))
            own = tf.cast(tf.gather(rounded, of_part, batch_dims=1), tf.float32)
            total += tf.reduce_sum(normaliser[:, 0] - own)
            hit = tf.cast(columns == of_part[:, None], tf.float32)
            slope = tf.cast(scale * (tf.exp(logits - normaliser) - hit), states.dtype)
            of_states.append(tf.matmul(slope, table))
            of_table.append(tf.cast(tf.matmul(slope, part, transpose_a=True), tf.float32))

        def grad(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            by_state = tf.cast(upstream, states.dtype) * tf.concat(of_states, 0)
            return by_state, tf.cast(upstream * tf.add_n(of_table), table.dtype)

        return scale * total, grad

    return run(states, table)
