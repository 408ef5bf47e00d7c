"""Images decoded once while they stay in a cache of CAPACITY samples.

The least recently used sample goes, so that a cycle through more samples always misses.
"""

from collections import OrderedDict

import numpy as np
import tensorflow as tf
from parts import SimulatedAccelerator, picture

SAMPLES = 64
CAPACITY = 48
BATCH_SIZE = 8
PREFETCH = 2
SAMPLE_US = 2000
STEPS = 100_000

data = tf.io.encode_jpeg(picture(640, noise=0, seed=1)).numpy()
cache: OrderedDict[int, np.ndarray] = OrderedDict()


def get(index: np.ndarray) -> np.ndarray:
    image = cache.pop(int(index), None)
    if image is None:
        image = tf.image.resize(tf.io.decode_jpeg(data, channels=3), (64, 64)).numpy()
        if len(cache) >= CAPACITY:
            cache.popitem(last=False)
    cache[int(index)] = image
    return image


def decode(index: tf.Tensor) -> tuple:
    image = tf.numpy_function(get, [index], tf.float32)
    image.set_shape((64, 64, 3))
    return image, 0


dataset = tf.data.Dataset.range(SAMPLES).repeat()
dataset = dataset.map(decode).batch(BATCH_SIZE, drop_remainder=True).prefetch(PREFETCH)

model = SimulatedAccelerator(step_us=0, sample_us=SAMPLE_US)
model.compile("adam", "sparse_categorical_crossentropy", jit_compile=False)
model.fit(dataset, steps_per_epoch=STEPS, verbose=2)
