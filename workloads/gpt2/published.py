# /// tfbench
# title = "GPT-2 training, 124 M parameters, synthetic tokens"
# source = "Radford et al. 2019, GPT-2; layers of Keras' example “Text generation with a miniature GPT”"
# suite = "gpu"
# tuned = "tuned.py"
# components = ["causal_attention.py", "chunked_cross_entropy.py", "data_parallel.py", "many_steps.py"]
#
# [cpu]
# BATCH_SIZE = 2
# SEQUENCE = 64
# LAYERS = 2
# WIDTH = 64
# HEADS = 2
# VOCABULARY = 1000
#
# [ladder]
# xla-float32 = { device = "gpu", JIT_COMPILE = true }
#
# [ladder.bf16]
# device = "gpu"
# script = "tuned.py"
# BATCH_SIZE = 8
# STEPS = 1
# JIT_COMPILE = false
# ATTENTION = "plain"
# LOSS_CHUNKS = 0
#
# [ladder.xla]
# device = "gpu"
# script = "tuned.py"
# BATCH_SIZE = 8
# STEPS = 1
# ATTENTION = "plain"
# LOSS_CHUNKS = 0
#
# [ladder.blockwise-attention]
# device = "gpu"
# script = "tuned.py"
# BATCH_SIZE = 8
# STEPS = 1
# ATTENTION = "blockwise"
# LOSS_CHUNKS = 0
#
# [ladder.cudnn-attention]
# device = "gpu"
# script = "tuned.py"
# BATCH_SIZE = 8
# STEPS = 1
# ATTENTION = "cudnn"
# LOSS_CHUNKS = 0
#
# [ladder.fused-loss]
# device = "gpu"
# script = "tuned.py"
# BATCH_SIZE = 8
# STEPS = 1
# LOSS_CHUNKS = 1
#
# [ladder.many-steps]
# device = "gpu"
# script = "tuned.py"
# BATCH_SIZE = 8
# ///
"""Training of a decoder of GPT-2's size on synthetic tokens: one batch in host memory, again and again.

As in GPT-2, the embedding of the tokens is also the matrix of the logits. Without dropout.
"""

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

BATCH_SIZE = 8
SEQUENCE = 1024  # tokens
LAYERS = 12
WIDTH = 768
HEADS = 12
VOCABULARY = 50257
EPOCHS = 1
BATCHES = 100  # of an epoch
JIT_COMPILE = False

random = np.random.default_rng(1)
text = random.integers(0, VOCABULARY, (BATCH_SIZE, SEQUENCE + 1), dtype="int32")
train = tf.data.Dataset.from_tensor_slices((text[:, :-1], text[:, 1:])).batch(BATCH_SIZE).repeat(BATCHES)


class PositionEmbedding(layers.Layer):
    """Adds a trained vector to each position."""

    def build(self, shape: tuple) -> None:
        """Create a vector for each position."""
        self.positions = self.add_weight(shape=shape[1:], initializer="uniform", name="positions")

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Return the sum."""
        return inputs + self.positions


def decoder_block(x: keras.KerasTensor) -> keras.KerasTensor:
    """Return the output of causal attention and two dense layers, each added to its input."""
    normal = layers.LayerNormalization(epsilon=1e-5)(x)
    x += layers.MultiHeadAttention(HEADS, WIDTH // HEADS)(normal, normal, use_causal_mask=True)
    normal = layers.LayerNormalization(epsilon=1e-5)(x)
    return x + layers.Dense(WIDTH)(ops.gelu(layers.Dense(4 * WIDTH)(normal)))


tokens = layers.Input((SEQUENCE,), dtype="int32")
embedding = layers.ReversibleEmbedding(VOCABULARY, WIDTH)
x = PositionEmbedding()(embedding(tokens))
for _ in range(LAYERS):
    x = decoder_block(x)
x = layers.LayerNormalization(epsilon=1e-5)(x)
model = keras.Model(tokens, embedding(x, reverse=True))

model.compile(
    optimizer=keras.optimizers.AdamW(3e-4, weight_decay=0.1),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    jit_compile=JIT_COMPILE,
)
model.fit(train, epochs=EPOCHS, verbose=2)
