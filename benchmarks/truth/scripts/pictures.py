"""Generate files with the detail of photographs."""

from __future__ import annotations

import numpy as np
import tensorflow as tf


def picture(side: int, *, noise: float, seed: int) -> tf.Tensor:
    """Return a picture of `side` x `side` pixels; more noise makes its files larger."""
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 256, (side // 8, side // 8, 3)).astype(np.float32)
    smooth = tf.image.resize(coarse, (side, side))
    pixels = smooth + noise * random.standard_normal((side, side, 3), np.float32)
    return tf.cast(tf.clip_by_value(pixels, 0, 255), tf.uint8)
