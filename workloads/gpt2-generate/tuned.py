"""The tokens of published.py from one compiled loop that reads each weight once for each step.

The prompt alone fills the cache, and its last state gives the first token; no token is computed twice. The cache of
each layer is a loop variable of fixed size, which XLA updates in place; values are stored by column, so that both
products of attention read along memory. The number of steps is a constant: the host waits for none. On GPUs weights
and cache are bfloat16. For one sequence, products with weights are sums, which XLA fuses with what surrounds them;
cuBLAS computes those of larger batches.

WEIGHTS = "int8" stores weights in 8 bits with a scale a row (Keras' abs_max_quantize), which changes the tokens.
"""

import keras
import numpy as np
import tensorflow as tf
from causal_attention import blockwise, cudnn
from memory_needs import generation_needs
from tensorflow.compiler.tf2xla.python import xla

GPU = bool(tf.config.get_visible_devices("GPU"))
SIZE = "1.5B"  # or "774M", "355M", "124M", "tiny"
BATCH_SIZE = 1
PROMPT = 512  # tokens
NEW_TOKENS = 128
VOCABULARY = 50257
PRECISION = "bfloat16" if GPU else "float32"
WEIGHTS = "bfloat16" if GPU else "float32"  # or "int8"
ATTENTION = "cudnn" if GPU else "blockwise"  # of the prompt; "cudnn" needs XLA and bfloat16
SUMS = 1 if GPU else 0  # largest batch whose products with weights are sums
JIT_COMPILE = True

SIZES = {  # layers, width, heads; GPT-2's
    "tiny": (2, 64, 2),
    "124M": (12, 768, 12),
    "355M": (24, 1024, 16),
    "774M": (36, 1280, 20),
    "1.5B": (48, 1600, 25),
}
POSITIONS, BLOCK = 1024, 256

LAYERS, WIDTH, HEADS = SIZES[SIZE]
HEAD = WIDTH // HEADS
PADDED = -(-VOCABULARY // 128) * 128  # rows of the matrix of the logits
WEIGHT_BYTES, CACHE_BYTES = (tf.as_dtype(each).size for each in (WEIGHTS, PRECISION))
NEEDS = generation_needs(
    layers=LAYERS, width=WIDTH, vocabulary=PADDED, positions=POSITIONS, prompt=PROMPT, new_tokens=NEW_TOKENS,
    batch=BATCH_SIZE, weight_bytes=WEIGHT_BYTES, cache_bytes=CACHE_BYTES,
)  # fmt: skip
keras.config.set_dtype_policy(PRECISION)

prompts = np.random.default_rng(1).integers(0, VOCABULARY, (BATCH_SIZE, PROMPT), dtype="int32")


class Linear(keras.layers.Layer):
    """A product with a matrix whose rows are stored one after another, and a bias.

    Args:
        inputs, outputs: sizes.
        bias: whether to add one.
    """

    def __init__(self, inputs: int, outputs: int, *, bias: bool = True) -> None:
        super().__init__(autocast=False)
        kernel = tf.cast(keras.random.normal((outputs, inputs), stddev=0.02, dtype="float32"), PRECISION)
        scale = None
        if WEIGHTS == "int8":
            kernel, scale = keras.quantizers.abs_max_quantize(
                tf.cast(kernel, tf.float32), axis=-1, to_numpy=False
            )
        self.kernel = self.add_weight(
            (outputs, inputs), lambda *_, **__: kernel, WEIGHTS, trainable=WEIGHTS != "int8"
        )
        self.scale = (
            self.add_weight((outputs,), lambda *_, **__: tf.squeeze(1 / scale, -1), "float32")
            if scale is not None
            else None
        )
        self.bias = self.add_weight((outputs,), "zeros") if bias else None

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Return float32[rows, outputs] for [rows, inputs]."""
        kernel = tf.convert_to_tensor(self.kernel)
        if x.shape[0] <= SUMS:
            products = tf.cast(kernel, tf.float32) * tf.cast(x, tf.float32)[:, None]
            result = tf.reduce_sum(products, -1)
        elif GPU:
            product = tf.matmul(tf.cast(x, PRECISION), tf.cast(kernel, PRECISION), transpose_b=True)
            result = tf.cast(product, tf.float32)
        else:  # with few rows of x, faster on CPUs than x times the transposed matrix
            product = tf.matmul(tf.cast(kernel, PRECISION), tf.cast(x, PRECISION), transpose_b=True)
            result = tf.cast(tf.transpose(product), tf.float32)
        if self.scale is not None:
            result *= tf.convert_to_tensor(self.scale)
        return result if self.bias is None else result + tf.cast(self.bias, tf.float32)

    def rows(self, indices: tf.Tensor) -> tf.Tensor:
        """Return rows of the matrix in float32, [*indices, inputs]."""
        found = tf.cast(tf.gather(tf.convert_to_tensor(self.kernel), indices), tf.float32)
        return found if self.scale is None else found * tf.gather(self.scale, indices)[..., None]


class Normal(keras.layers.Layer):
    """Layer normalisation of float32[rows, width]."""

    def __init__(self) -> None:
        super().__init__(autocast=False)
        self.gamma, self.beta = self.add_weight((WIDTH,), "ones"), self.add_weight((WIDTH,), "zeros")

    def call(self, x: tf.Tensor) -> tf.Tensor:
        """Return x with mean 0 and variance 1, scaled and shifted."""
        # Both moments from one pass, which XLA makes one kernel.
        mean, square = tf.reduce_mean(x, -1, keepdims=True), tf.reduce_mean(tf.square(x), -1, keepdims=True)
        x = (x - mean) * tf.math.rsqrt(square - tf.square(mean) + 1e-5)
        return x * tf.cast(self.gamma, tf.float32) + tf.cast(self.beta, tf.float32)


class Block(keras.layers.Layer):
    """Causal attention and two dense layers, each added to its input."""

    def __init__(self) -> None:
        super().__init__(autocast=False)
        self.first, self.second = Normal(), Normal()
        self.heads, self.joined = Linear(WIDTH, 3 * WIDTH), Linear(WIDTH, WIDTH)
        self.wide, self.narrow = Linear(WIDTH, 4 * WIDTH), Linear(4 * WIDTH, WIDTH)

    def prompt(self, x: tf.Tensor, batch: int, length: int) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return the output for prompts, and a cache of `length` tokens that begins with theirs.

        Args:
            x: float32[batch * prompt, width].
        """
        parts = tf.reshape(tf.cast(self.heads(self.first(x)), PRECISION), (batch, -1, 3, HEADS, HEAD))
        query, key, value = tf.unstack(parts, axis=2)
        attended = cudnn(query, key, value) if ATTENTION == "cudnn" else blockwise(query, key, value, BLOCK)
        missing = [0, length - parts.shape[1]]
        keys = tf.pad(tf.transpose(key, (0, 2, 1, 3)), [[0, 0], [0, 0], missing, [0, 0]])
        values = tf.pad(tf.transpose(value, (0, 2, 3, 1)), [[0, 0], [0, 0], [0, 0], missing])
        return self.out(x, tf.reshape(attended, (-1, WIDTH))), keys, values

    def step(
        self, x: tf.Tensor, keys: tf.Tensor, values: tf.Tensor, position: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Return the output for the tokens at a position, and the cache with them.

        Args:
            x: float32[batch, width].
            keys: [batch, heads, length, size]; values: [batch, heads, size, length].
        """
        parts = tf.reshape(tf.cast(self.heads(self.first(x)), PRECISION), (-1, 3, HEADS, HEAD))
        query, key, value = tf.unstack(parts, axis=1)
        zero = tf.zeros((), tf.int32)
        keys = xla.dynamic_update_slice(keys, key[:, :, None], tf.stack([zero, zero, position, zero]))
        values = xla.dynamic_update_slice(values, value[..., None], tf.stack([zero, zero, zero, position]))
        query, length = tf.cast(query, tf.float32) * HEAD**-0.5, keys.shape[2]
        logits = tf.reduce_sum(tf.cast(keys, tf.float32) * query[:, :, None], -1)
        weights = tf.nn.softmax(tf.where(tf.range(length) <= position, logits, -float("inf")))
        attended = tf.reduce_sum(tf.cast(values, tf.float32) * weights[:, :, None], -1)
        return self.out(x, tf.reshape(attended, (-1, WIDTH))), keys, values

    def out(self, x: tf.Tensor, attended: tf.Tensor) -> tf.Tensor:
        """Return the block's output for its input and what attention found, float32[rows, width]."""
        x += self.joined(attended)
        return x + self.narrow(tf.nn.gelu(self.wide(self.second(x)), approximate=True))


class Generator(keras.Model):
    """Return the tokens that follow prompts, int32[batch, new_tokens].

    Attributes:
        new_tokens: tokens of a sequence that a call makes: its samples are tokens.
        needs: what a token needs of the device.
    """

    def __init__(self) -> None:
        super().__init__(autocast=False)
        self.new_tokens, self.needs = NEW_TOKENS, NEEDS
        self.tokens, self.positions = Linear(WIDTH, PADDED, bias=False), Linear(WIDTH, POSITIONS, bias=False)
        self.blocks = [Block() for _ in range(LAYERS)]
        self.last = Normal()
        self.built = True

    def call(self, prompts: tf.Tensor) -> tf.Tensor:
        """Generate greedily."""
        (batch, prompt), new = prompts.shape, self.new_tokens
        x = self.tokens.rows(prompts) + self.positions.rows(tf.range(prompt))
        x = tf.reshape(x, (batch * prompt, WIDTH))
        cache = []
        for block in self.blocks:
            x, keys, values = block.prompt(x, batch, prompt + new)
            cache.append((keys, values))
        token = self.chosen(tf.reshape(x, (batch, prompt, WIDTH))[:, -1])

        def body(
            step: tf.Tensor, token: tf.Tensor, tokens: tf.Tensor, cache: list[tuple[tf.Tensor, tf.Tensor]]
        ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, list[tuple[tf.Tensor, tf.Tensor]]]:
            position = prompt + step
            x = self.tokens.rows(token) + self.positions.rows(position)
            changed = []
            for block, own in zip(self.blocks, cache, strict=True):
                x, keys, values = block.step(x, *own, position)
                changed.append((keys, values))
            token = self.chosen(x)
            tokens = tf.where(tf.range(new) == step + 1, token[:, None], tokens)
            return step + 1, token, tokens, changed

        tokens = tf.tile(token[:, None], (1, new))
        if new == 1:
            return tokens
        # A constant number of steps, so that XLA does not ask the device after each whether it is the last.
        return tf.while_loop(
            lambda *_: True, body, (tf.zeros((), tf.int32), token, tokens, cache),
            maximum_iterations=new - 1, parallel_iterations=1,
        )[2]  # fmt: skip

    def chosen(self, x: tf.Tensor) -> tf.Tensor:
        """Return the token with the largest logit for the states of the last tokens, int32[batch]."""
        return tf.argmax(self.tokens(self.last(x))[:, :VOCABULARY], -1, tf.int32)


model = Generator()
model.compile(jit_compile=JIT_COMPILE)
model.predict(prompts, batch_size=BATCH_SIZE)
