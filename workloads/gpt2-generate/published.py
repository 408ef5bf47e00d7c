# /// tfbench
# title = "GPT-2 generating tokens, greedy, synthetic prompts"
# source = "Radford et al. 2019, GPT-2; generation as in KerasHub's CausalLM and GreedySampler, 2026"
# tuned = "tuned.py"
# components = ["causal_attention.py", "memory_needs.py"]
#
# [cpu]
# SIZE = "124M"
# PROMPT = 128
# NEW_TOKENS = 8
#
# [requests]
# batch_sizes = [1, 8, 64]
#
# [ladder.bf16]
# device = "gpu"
# PRECISION = "bfloat16"
#
# [ladder.in-place]
# script = "tuned.py"
# PRECISION = "float32"
# WEIGHTS = "float32"
# ATTENTION = "blockwise"
# SUMS = 0
#
# [ladder.in-place-bf16]
# device = "gpu"
# script = "tuned.py"
# SUMS = 0
#
# [ladder.int8]
# device = "gpu"
# script = "tuned.py"
# WEIGHTS = "int8"
# ///
"""Greedy generation with a decoder of GPT-2's size and random weights, by Keras' predict.

The work of a request is that of KerasHub's `GPT2CausalLM.generate` on TensorFlow: one function compiled by XLA runs
the whole padded sequence through the network to fill a cache of keys and values, then a loop that ends at a length
which it computes from the prompts. A step of the loop updates the cache of each layer, stacks them again, and takes
the token with the largest softmax.
"""

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops
from memory_needs import generation_needs

SIZE = "1.5B"  # or "774M", "355M", "124M", "tiny"
BATCH_SIZE = 1
PROMPT = 512  # tokens
NEW_TOKENS = 128
VOCABULARY = 50257
PRECISION = "float32"
JIT_COMPILE = True  # KerasHub's default

SIZES = {  # layers, width, heads; GPT-2's
    "tiny": (2, 64, 2),
    "124M": (12, 768, 12),
    "355M": (24, 1024, 16),
    "774M": (36, 1280, 20),
    "1.5B": (48, 1600, 25),
}
POSITIONS = 1024

LAYERS, WIDTH, HEADS = SIZES[SIZE]
ITEM_BYTES = 4 if PRECISION == "float32" else 2
NEEDS = generation_needs(
    layers=LAYERS, width=WIDTH, vocabulary=VOCABULARY, positions=POSITIONS, prompt=PROMPT, new_tokens=NEW_TOKENS,
    batch=BATCH_SIZE, weight_bytes=ITEM_BYTES, cache_bytes=ITEM_BYTES, caches=2,
)  # fmt: skip
keras.config.set_dtype_policy(PRECISION)

prompts = np.random.default_rng(1).integers(0, VOCABULARY, (BATCH_SIZE, PROMPT), dtype="int32")


class Block(layers.Layer):
    """Causal attention with a cache, and two dense layers, each added to its input."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = (layers.LayerNormalization(epsilon=1e-5) for _ in range(2))
        self.query, self.key, self.value, self.joined = (layers.Dense(WIDTH) for _ in range(4))
        self.wide, self.narrow = layers.Dense(4 * WIDTH), layers.Dense(WIDTH)

    def call(self, x: tf.Tensor, cache: tf.Tensor, index: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the output of tokens from position `index` on, and the cache with their keys and values.

        Args:
            x: [batch, tokens, width].
            cache: keys and values, [batch, 2, length, heads, size].
        """
        batch, count, _ = ops.shape(x)
        normal = self.first(x)
        heads = (batch, count, HEADS, WIDTH // HEADS)
        query, key, value = (ops.reshape(each(normal), heads) for each in (self.query, self.key, self.value))
        keys, values = (
            ops.slice_update(cache[:, part], (0, index, 0, 0), new) for part, new in enumerate((key, value))
        )
        logits = ops.einsum("bqhd,bkhd->bhqk", query, keys) * (WIDTH // HEADS) ** -0.5
        seen = ops.arange(cache.shape[2])[None] <= index + ops.arange(count)[:, None]
        weights = ops.softmax(ops.where(seen, logits, ops.cast(-1e9, logits.dtype)))
        attended = ops.reshape(ops.einsum("bhqk,bkhd->bqhd", weights, values), (batch, count, WIDTH))
        x = x + self.joined(attended)
        wide = ops.gelu(self.wide(self.second(x)))
        return x + self.narrow(wide), ops.stack([keys, values], axis=1)


class Generator(keras.Model):
    """Return the tokens that follow prompts, int32[batch, new_tokens].

    Attributes:
        new_tokens: tokens of a sequence that a call makes: its samples are tokens.
        needs: what a token needs of the device.
    """

    def __init__(self) -> None:
        super().__init__()
        self.new_tokens, self.needs = NEW_TOKENS, NEEDS
        self.tokens = layers.ReversibleEmbedding(VOCABULARY, WIDTH)
        self.positions = layers.Embedding(POSITIONS, WIDTH)
        self.blocks = [Block() for _ in range(LAYERS)]
        self.last = layers.LayerNormalization(epsilon=1e-5)
        self.forward(np.zeros((1, 1), "int32"), self.empty(1, 2), 0)  # makes the weights, before the loop
        self.built = True

    def empty(self, batch: int, length: int) -> tf.Tensor:
        """Return a cache for sequences of `length` tokens."""
        return ops.zeros((batch, LAYERS, 2, length, HEADS, WIDTH // HEADS), self.compute_dtype)

    def forward(self, tokens: tf.Tensor, cache: tf.Tensor, index: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the logits of tokens from position `index` on, [batch, tokens, vocabulary], and the new cache."""
        x = self.tokens(tokens) + self.positions(index + ops.arange(ops.shape(tokens)[1]))
        caches = []
        for number, block in enumerate(self.blocks):
            x, own = block(x, cache[:, number], index=index)
            caches.append(own)
        return self.tokens(self.last(x), reverse=True), ops.stack(caches, axis=1)

    def call(self, prompts: tf.Tensor) -> tf.Tensor:
        """Generate greedily."""
        batch, length = ops.shape(prompts)[0], prompts.shape[1] + self.new_tokens
        padded = ops.pad(prompts, ((0, 0), (0, self.new_tokens)), constant_values=-1)
        given = padded >= 0  # from here on as for prompts of different lengths
        sequence = ops.maximum(padded, 0)
        _, cache = self.forward(sequence, self.empty(batch, length), 0)
        first = ops.min(ops.sum(ops.cast(given, "int32"), axis=1))

        def body(sequence: tf.Tensor, cache: tf.Tensor, index: tf.Tensor) -> tuple[tf.Tensor, ...]:
            latest = ops.slice(sequence, (0, index - 1), (batch, 1))
            logits, cache = self.forward(latest, cache, index - 1)
            probabilities = ops.softmax(ops.cast(logits[:, 0], "float32"))
            token = ops.cast(ops.argmax(probabilities, axis=-1), "int32")
            token = ops.where(given[:, index], sequence[:, index], token)
            return ops.slice_update(sequence, (0, index), token[:, None]), cache, index + 1

        sequence, _, _ = ops.while_loop(
            lambda sequence, cache, index: index < length, body, (sequence, cache, first),
            maximum_iterations=length - first,
        )  # fmt: skip
        return sequence[:, prompts.shape[1] :]


model = Generator()
model.compile(jit_compile=JIT_COMPILE)
model.predict(prompts, batch_size=BATCH_SIZE)
