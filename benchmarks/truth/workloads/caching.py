"""Training on pictures decoded once and kept in a cache of `capacity` samples."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import tensorflow as tf
from simulated import compiled

from workloads.protocol import Data, Workload

OUT = 64

workload = Workload(
    name="truth-caching",
    title="Pictures decoded once, as long as the cache holds them",
    data=Data(name="own", shape=(64, 64, 3), classes=10, train=0, test=0),
    batch_size=8,
    epochs=1,
    params={"samples": 64, "capacity": 48, "side": 640, "prefetch": 2, "step_us": 0, "sample_us": 2000},
    stages=("read", "decode", "batch"),
    tuned={"capacity": 64},
)


def model(params: dict) -> tf.keras.Model:
    """Return the device."""
    return compiled((OUT, OUT, 3), {**params, "real": 0})


def dataset(params: dict, data_dir: str) -> tuple:
    """Return the pipeline."""
    del data_dir
    random = np.random.default_rng(1)
    coarse = random.integers(0, 256, (params["side"] // 8, params["side"] // 8, 3)).astype(np.float32)
    picture = tf.cast(tf.image.resize(coarse, (params["side"], params["side"])), tf.uint8)
    data = tf.io.encode_jpeg(picture).numpy()
    cache = Cache(params["capacity"], data)

    def decode(index: tf.Tensor) -> tuple:
        image = tf.numpy_function(cache.get, [index], tf.float32)
        image.set_shape((OUT, OUT, 3))
        return image, 0

    return (
        ("read", lambda: tf.data.Dataset.range(params["samples"]).repeat()),
        ("decode", lambda before: before.map(decode)),
        (
            "batch",
            lambda before: before.batch(params["batch_size"], drop_remainder=True).prefetch(
                params["prefetch"]
            ),
        ),
    )


class Cache:
    """Decoded samples by index; going round more samples than it holds, it never has the next one."""

    def __init__(self, capacity: int, data: bytes) -> None:
        self._capacity = capacity
        self._data = data
        self._kept: OrderedDict[int, np.ndarray] = OrderedDict()

    def get(self, index: np.ndarray) -> np.ndarray:
        """Return a sample, decoded now if it was not kept."""
        key = int(index)
        if key not in self._kept:
            image = tf.image.resize(tf.io.decode_jpeg(self._data, channels=3), (OUT, OUT))
            self._kept[key] = image.numpy()
            if len(self._kept) > self._capacity:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]
