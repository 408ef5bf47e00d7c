"""Training of published.py's network in bfloat16 with XLA: many steps per call, without copies.

Query, key and value are one product. Attention is cuDNN's on GPUs; elsewhere it skips the blocks that the causal
mask hides. The loss makes its gradient in the forward pass, so that the logits of 50,257 classes are not kept; their
matrix is padded to a multiple of 128 and the padding is masked, so that the loss is the published one. Half
precision is faster on GPUs only.

One call of the compiled step trains STEPS * BATCH_SIZE samples on each GPU; all are the length of a batch of indices.
The network returns its last states, and the loss makes the logits.
"""

import os
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf
from causal_attention import CausalAttention
from chunked_cross_entropy import chunked_cross_entropy
from data_parallel import DataParallel
from keras import layers, ops
from many_steps import shuffled, train_many_steps

# On an H100, Triton's products and a longer search for the fastest ones triple the time to compile and gain nothing.
XLA_FLAGS = (
    "--xla_gpu_enable_triton_gemm=false --xla_gpu_autotune_level=2"
    " --xla_gpu_experimental_enable_fusion_autotuner=false"
)
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {XLA_FLAGS}".strip()  # read when XLA starts

GPUS = len(tf.config.get_visible_devices("GPU"))
BATCH_SIZE = 32 if GPUS else 2  # of each GPU
SEQUENCE = 1024  # tokens
LAYERS = 12
WIDTH = 768
HEADS = 12
VOCABULARY = 50257
EPOCHS = 1
BATCHES = 100  # of an epoch
STEPS = 10  # training steps per call
PRECISION = "mixed_bfloat16" if GPUS else "float32"
JIT_COMPILE = True
ATTENTION = "cudnn" if GPUS else "blockwise"  # or "plain"; "cudnn" needs XLA and bfloat16
BLOCK = 256  # queries of a block
LOSS_CHUNKS = 1  # more need less memory; 0: all logits and TensorFlow's own loss

keras.mixed_precision.set_global_policy(PRECISION)

random = np.random.default_rng(1)
text = random.integers(0, VOCABULARY, (BATCH_SIZE, SEQUENCE + 1), dtype="int32")


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
    attended = CausalAttention(SEQUENCE, HEADS, ATTENTION, BLOCK)(layers.Dense(3 * WIDTH)(normal))
    x = layers.Add()([x, layers.Dense(WIDTH)(attended)])
    normal = layers.LayerNormalization(epsilon=1e-5)(x)
    return layers.Add()([x, layers.Dense(WIDTH)(ops.gelu(layers.Dense(4 * WIDTH)(normal)))])


def decoder() -> keras.Model:
    """Return a network from tokens, int32[batch, SEQUENCE], to its last states, [batch * SEQUENCE, WIDTH]."""
    tokens = layers.Input((SEQUENCE,), dtype="int32")
    # In float32, because its gradient is a sum over the tokens of a batch.
    embedding = layers.Embedding(VOCABULARY, WIDTH, dtype="float32", name="embedding")
    # One row a token, so that XLA does not choose a layout that transposes the states for each product.
    x = ops.reshape(PositionEmbedding()(embedding(tokens)), (-1, WIDTH))
    for _ in range(LAYERS):
        x = decoder_block(x)
    return keras.Model(tokens, layers.LayerNormalization(epsilon=1e-5)(x))


def loss_of(network: keras.Model) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """Return the loss of a network, whose embedding is also the matrix of the logits."""
    embedding = network.get_layer("embedding")

    def loss(targets: tf.Tensor, states: tf.Tensor) -> tf.Tensor:
        """Return the mean cross-entropy of the next tokens."""
        table = tf.convert_to_tensor(embedding.embeddings)
        states = tf.cast(states, keras.config.dtype_policy().compute_dtype)
        return chunked_cross_entropy(tf.cast(targets, tf.int32), states, table, LOSS_CHUNKS)

    return loss


optimizer = keras.optimizers.AdamW(3e-4, weight_decay=0.1)
if GPUS > 1:
    devices = [f"GPU:{number}" for number in range(GPUS)]
    model = DataParallel(decoder, text[:, :-1], text[:, 1:], BATCH_SIZE, devices)
    model.compile(optimizer=optimizer, loss_of=loss_of, jit_compile=JIT_COMPILE)
else:
    model = decoder()
    model.compile(optimizer=optimizer, loss=loss_of(model), jit_compile=JIT_COMPILE)
    train_many_steps(model, text[:, :-1], text[:, 1:], BATCH_SIZE)
indices = shuffled(BATCH_SIZE, STEPS * BATCH_SIZE * max(1, GPUS))
model.fit(indices, steps_per_epoch=max(1, BATCHES // STEPS), epochs=EPOCHS, verbose=2)
