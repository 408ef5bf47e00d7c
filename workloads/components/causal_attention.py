"""Causal attention that XLA compiles well, in three forms with the same result.

XLA no longer recognises attention: openxla/xla pull request 22225 removed its patterns in 2025. What it compiles
from TensorFlow writes the logits of all pairs of tokens, also those that the mask hides.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla

Gradient = Callable[..., tuple[tf.Tensor, tf.Tensor, tf.Tensor]]


class CausalAttention(keras.layers.Layer):
    """Attention of each token to itself and earlier ones.

    The input is query, key and value, [batch * length, 3 * width]; the output is [batch * length, width].

    Args:
        length: tokens of a sequence.
        heads: number of heads.
        form: "plain", "blockwise" or "cudnn".
        block: queries of a block, for "blockwise".
    """

    def __init__(self, length: int, heads: int, form: str, block: int) -> None:
        super().__init__()
        self.length, self.heads = length, heads
        self.attend = {
            "plain": plain,
            "blockwise": lambda query, key, value: blockwise(query, key, value, block),
            "cudnn": cudnn,
        }[form]

    def compute_output_shape(self, shape: tuple) -> tuple:
        """Return the shape without keys and values."""
        return shape[0], shape[1] // 3

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Split the heads, attend, and join them."""
        width = inputs.shape[1] // 3
        parts = tf.reshape(inputs, [-1, self.length, 3, self.heads, width // self.heads])
        return tf.reshape(self.attend(*tf.unstack(parts, axis=2)), [-1, width])


def plain(query: tf.Tensor, key: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    """Return softmax(query @ key / sqrt(size)) @ value, all [batch, length, heads, size]."""
    query, key, value = map(_swapped, (query, key, value))
    return _swapped(tf.matmul(_probabilities(query, key, 0), value))


def _swapped(tensor: tf.Tensor) -> tf.Tensor:
    """Return it with length and heads swapped."""
    return tf.transpose(tensor, [0, 2, 1, 3])


def _probabilities(query: tf.Tensor, key: tf.Tensor, start: int) -> tf.Tensor:
    """Return the softmax, computed in float32, of queries from position `start` on."""
    logits = tf.cast(tf.matmul(query, key, transpose_b=True), tf.float32) * query.shape[-1] ** -0.5
    seen = tf.range(key.shape[2])[None] <= start + tf.range(query.shape[2])[:, None]
    return tf.cast(tf.nn.softmax(tf.where(seen, logits, -float("inf"))), query.dtype)


def blockwise(query: tf.Tensor, key: tf.Tensor, value: tf.Tensor, block: int) -> tf.Tensor:
    """Return the same, `block` queries at a time, each with the keys up to its end only.

    The gradient reads the probabilities of the forward pass, rounded to the type of the inputs, and sums the
    product of output and gradient instead of probabilities and gradient.
    """

    @tf.custom_gradient
    def run(query: tf.Tensor, key: tf.Tensor, value: tf.Tensor) -> tuple[tf.Tensor, Gradient]:
        length = query.shape[2]
        spans = [(start, min(start + block, length)) for start in range(0, length, block)]
        kept = [_probabilities(query[:, :, start:end], key[:, :, :end], start) for start, end in spans]
        outputs = [tf.matmul(each, value[:, :, :end]) for each, (_, end) in zip(kept, spans, strict=True)]

        def grad(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            of_query, of_key, of_value = [], [], []
            for weights, output, (start, end) in zip(kept, outputs, spans, strict=True):
                change = upstream[:, :, start:end]
                below = [[0, 0], [0, 0], [0, length - end], [0, 0]]
                product = tf.cast(change, tf.float32) * tf.cast(output, tf.float32)
                mean = tf.reduce_sum(product, axis=-1, keepdims=True)
                slope = tf.cast(tf.matmul(change, value[:, :, :end], transpose_b=True), tf.float32) - mean
                slope *= tf.cast(weights, tf.float32) * query.shape[-1] ** -0.5
                slope = tf.cast(slope, query.dtype)
                of_query.append(tf.matmul(slope, key[:, :, :end]))
                for sums, left, right in (
                    (of_key, slope, query[:, :, start:end]),
                    (of_value, weights, change),
                ):
                    part = tf.matmul(left, right, transpose_a=True)
                    sums.append(tf.pad(tf.cast(part, tf.float32), below))
            joined = (tf.cast(tf.add_n(sums), query.dtype) for sums in (of_key, of_value))
            return tf.concat(of_query, 2), *joined

        return tf.concat(outputs, 2), grad

    return _swapped(run(*map(_swapped, (query, key, value))))


def cudnn(query: tf.Tensor, key: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    """Return the same from cuDNN's flash attention: the call that JAX makes of XLA.

    In XLA on GPUs only, for float16 and bfloat16 and fully known shapes.
    """
    batch, length, heads, size = query.shape
    like = tf.TensorSpec([batch, heads, length, size], query.dtype)
    statistics = tf.TensorSpec([batch, heads, length], tf.float32)
    workspace = tf.TensorSpec([0], tf.uint8)  # XLA sets its size

    @tf.custom_gradient
    def run(query: tf.Tensor, key: tf.Tensor, value: tf.Tensor) -> tuple[tf.Tensor, Gradient]:
        forward, backward = _cudnn_settings(like)
        output, logarithms, _ = xla.custom_call_v2(
            "__cudnn$fmhaSoftmax", [query, key, value], [like, statistics, workspace], forward
        )
        output = _swapped(output)

        def grad(upstream: tf.Tensor) -> tuple[tf.Tensor, ...]:
            operands = [query, key, value, logarithms, upstream, output]
            results = [like, like, like, workspace]
            slopes = xla.custom_call_v2("__cudnn$fmhaSoftmaxBackward", operands, results, backward)
            return tuple(map(_swapped, slopes[:3]))

        return output, grad

    return run(query, key, value)


def _cudnn_settings(like: tf.TensorSpec) -> tuple[str, str]:
    """Return XLA's CudnnfMHABackendConfig of forward and backward pass.

    Args:
        like: results, [batch, heads, length, size]. Operands are [batch, length, heads, size].
    """
    batch, heads, length, size = like.shape
    shared: dict[str, Any] = {
        "algorithm": {
            "algo_id": "0",
            "math_type": "TENSOR_OP_MATH",
            "tuning_knobs": {"17": "1", "24": "0"},
            "is_cudnn_frontend": True,
            "workspace_size": "0",
        },
        "fmha_scale": size**-0.5,
        "dropout_rate": 0.0,
        "intermediate_tensor_shape": {
            "element_type": {tf.bfloat16: "BF16", tf.float16: "F16"}[like.dtype],
            "dimensions": [str(batch), str(heads), str(length), str(length)],
            "layout": {"minor_to_major": ["3", "2", "1", "0"]},
            "is_dynamic_dimension": [False] * 4,
        },
        "seed": 42,
        "is_flash_attention": True,
        "mask_type": "CAUSAL",
        "sliding_window_length": 0,
    }
    # Product -> the dimensions of its two factors that it sums over, and those that it keeps apart. The gradient's
    # first factors, except for the last, are probabilities, [batch, heads, length, length].
    products = (
        {"bmm1": ((3, 3), ("02", "02")), "bmm2": ((3, 1), ("01", "02"))},
        {
            "bmm1_grad_gemm1": ((2, 1), ("01", "02")),
            "bmm1_grad_gemm2": ((3, 1), ("01", "02")),
            "bmm2_grad_gemm1": ((2, 1), ("01", "02")),
            "bmm2_grad_gemm2": ((3, 3), ("02", "02")),
        },
    )
    forward, backward = (
        json.dumps({"cudnn_fmha_backend_config": {**shared, **{
            f"{name}_dot_dimension_numbers": {
                "lhs_contracting_dimensions": [str(summed[0])],
                "rhs_contracting_dimensions": [str(summed[1])],
                "lhs_batch_dimensions": list(kept[0]),
                "rhs_batch_dimensions": list(kept[1]),
            }
            for name, (summed, kept) in each.items()
        }}})
        for each in products
    )  # fmt: skip
    return forward, backward
