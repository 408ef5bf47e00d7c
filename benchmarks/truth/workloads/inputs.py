"""Slow input pipelines for a simulated accelerator or a real network."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from simulated import SimulatedAccelerator

from workloads.protocol import Data, Workload

SHARED: dict[str, Any] = {"batch_size": 8, "epochs": 1}
# Shared parameters. `real` is "" for the simulated device, "convolutions" or "dense" for a real network.
PARAMS = {"prefetch": 2, "threads": 1, "step_us": 0, "sample_us": 3000, "real": "", "width": 64}
TUNED = {"threads": 4}

reading = Workload(
    **SHARED,
    name="truth-reading",
    title="Records from storage and a bus with limited throughput",
    data=Data(name="own", shape=(4096,), classes=10, train=0, test=0),
    params={
        **PARAMS,
        "source": "store",
        "store_bytes_per_s": 1e6,
        "credit_bytes": 0,  # burst credit: bytes at full speed before the limit applies
        "bus_bytes_per_s": 0.0,  # throughput of a serial copy to the device; 0 for no copy
    },
    stages=("read", "batch", "copy"),
    tuned={"prefetch": 4},
)
disk = Workload(
    **{**SHARED, "batch_size": 64},
    name="truth-disk",
    title="Records from disk, dropped from the page cache at once unless `drop` is 0",
    data=Data(name="own", shape=(64, 64, 3), classes=10, train=1024, test=16),
    params={**PARAMS, "source": "disk", "drop": 1, "sample_us": 400},
    stages=("read", "batch"),
    tuned={"prefetch": 4},
)
jpegs = Workload(
    **SHARED,
    name="truth-jpegs",
    title="JPEG files decoded and resized by `threads` threads",
    data=Data(name="own", shape=(96, 96, 3), classes=10, train=0, test=0),
    params={**PARAMS, "source": "jpegs", "side": 1024},
    stages=("read", "decode", "resize", "batch"),
    tuned=TUNED,
)
augmenting = Workload(
    **SHARED,
    name="truth-augmenting",
    title="Images in memory, cropped, with `rounds` rounds of flips and colour augmentation",
    data=Data(name="own", shape=(128, 128, 3), classes=10, train=0, test=0),
    params={**PARAMS, "source": "images", "rounds": 4},
    stages=("read", "augment", "batch"),
    tuned=TUNED,
)
generating = Workload(
    **SHARED,
    name="truth-generating",
    title="Text parsed by a Python generator",
    data=Data(name="own", shape=(64,), classes=10, train=0, test=0),
    params={**PARAMS, "source": "text", "fields": 1000},
    stages=("generate", "batch"),
    tuned={"prefetch": 4},
)
caching = Workload(
    **SHARED,
    name="truth-caching",
    title="Images decoded once while they stay in the cache",
    data=Data(name="own", shape=(64, 64, 3), classes=10, train=0, test=0),
    params={**PARAMS, "source": "cache", "samples": 64, "capacity": 48, "sample_us": 2000},
    stages=("read", "decode", "batch"),
    tuned={"capacity": 64},
)

workloads = (reading, disk, jpegs, augmenting, generating, caching)

Params = Mapping[str, Any]
Stages = tuple[tuple[str, Callable[..., Any]], ...]


def model(params: Params) -> tf.keras.Model:
    """Return the device."""
    layers = tf.keras.layers
    if not params["real"]:
        net = SimulatedAccelerator(step_us=params["step_us"], sample_us=params["sample_us"])
    elif params["real"] == "dense":
        dense = (layers.Dense(params["width"], activation="relu") for _ in range(4))
        net = tf.keras.Sequential([*dense, layers.Dense(10, activation="softmax")])
    else:
        same = (layers.Conv2D(params["width"], 3, padding="same", activation="relu") for _ in range(4))
        net = tf.keras.Sequential([
            layers.Rescaling(1 / 255),
            layers.Conv2D(params["width"], 3, strides=2, activation="relu"),
            *same,
            layers.GlobalAveragePooling2D(),
            layers.Dense(10, activation="softmax"),
        ])  # fmt: skip
    net.compile("adam", "sparse_categorical_crossentropy", jit_compile=False)
    return net


def dataset(params: Params, data_dir: str) -> Stages:
    """Return the pipeline: the stages of the source, `batch` with prefetching, and for storage `copy`."""

    def batch(before: tf.data.Dataset) -> tf.data.Dataset:
        batches = before.batch(params["batch_size"], drop_remainder=True)
        return batches.prefetch(params["prefetch"]) if params["prefetch"] else batches

    stages = (*SOURCES[params["source"]](params, data_dir), ("batch", batch))
    return (*stages, ("copy", _over_the_bus(params))) if params["source"] == "store" else stages


def _store(params: Params, data_dir: str) -> Stages:
    del data_dir
    record = np.random.default_rng(1).random(4096).astype(np.float32)
    store = Store(params["store_bytes_per_s"], params["credit_bytes"])

    def read() -> Iterator[tuple]:
        while True:
            store.take(record.nbytes)
            yield record, np.int32(0)

    return (("read", lambda: _generated(read, record)),)


def _over_the_bus(params: Params) -> Callable[..., Any]:
    def sleep(x: np.ndarray, seconds: np.ndarray) -> np.ndarray:
        time.sleep(float(seconds))
        return x

    def copy(x: tf.Tensor, y: tf.Tensor) -> tuple:
        if params["bus_bytes_per_s"] == 0:
            return x, y
        seconds = tf.cast(tf.size(x) * 4, tf.float64) / params["bus_bytes_per_s"]
        copied = tf.numpy_function(sleep, [x, seconds], tf.float32)
        copied.set_shape(x.shape)
        return copied, y

    options = tf.data.Options()
    # Otherwise tf.data silently adds the prefetch that a case leaves out.
    options.experimental_optimization.inject_prefetch = False
    return lambda before: before.map(copy).with_options(options)


class Store:
    """Storage with limited throughput after the first `credit` bytes."""

    def __init__(self, bytes_per_s: float, credit: float) -> None:
        self._bytes_per_s = bytes_per_s
        self._credit = credit
        self._due = self._served = 0.0

    def take(self, count: int) -> None:
        """Wait until `count` more bytes are available."""
        if self._credit >= count:
            self._credit -= count
            return
        now = time.monotonic()
        # Back-to-back calls keep a schedule, so that inaccurate sleeps do not add up. Idle time earns no
        # credit.
        start = self._due if now - self._served < 0.001 else now
        self._due = start + count / self._bytes_per_s
        if self._due > now:
            time.sleep(self._due - now)
        self._served = time.monotonic()


def _disk(params: Params, data_dir: str) -> Stages:
    path, header, record = Path(data_dir) / "x_train.npy", 128, np.zeros((64, 64, 3), np.uint8)
    # One block at a time, like a record reader's buffer: the speed of single records depends on readahead.
    block = 16 * record.nbytes
    if not params["drop"]:
        path.read_bytes()  # fills the page cache

    def read() -> Iterator[tuple]:
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_RANDOM)
        blocks = (os.fstat(descriptor).st_size - header) // block
        while True:
            for index in range(blocks):
                data = np.frombuffer(os.pread(descriptor, block, header + index * block), np.uint8)
                if params["drop"]:
                    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
                for image in data.reshape(-1, *record.shape):
                    yield image, np.int32(0)

    return (("read", lambda: _generated(read, record)),)


def _jpegs(params: Params, data_dir: str) -> Stages:
    """Read generated files with the detail of photographs from the container's memory."""
    del data_dir
    folder, threads = Path(f"/tmp/jpegs-{params['side']}"), params["threads"]  # noqa: S108 - the container's own
    if not folder.exists():
        folder.mkdir()
        for index in range(4):
            tf.io.write_file(str(folder / f"{index}.jpg"), _jpeg(params["side"], noise=6, seed=index))
    files = sorted(str(path) for path in folder.iterdir())

    def decode(data: tf.Tensor) -> tf.Tensor:
        return tf.io.decode_jpeg(data, channels=3)

    def resize(image: tf.Tensor) -> tuple:
        return tf.image.resize(image, (96, 96)), 0

    return (
        ("read", lambda: tf.data.Dataset.from_tensor_slices(files).repeat().map(tf.io.read_file)),
        ("decode", lambda before: before.map(decode, num_parallel_calls=threads)),
        ("resize", lambda before: before.map(resize, num_parallel_calls=threads)),
    )


def _jpeg(side: int, *, noise: float, seed: int) -> tf.Tensor:
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 256, (side // 8, side // 8, 3)).astype(np.float32)
    picture = tf.image.resize(coarse, (side, side)) + noise * random.standard_normal(
        (side, side, 3), np.float32
    )
    return tf.io.encode_jpeg(tf.cast(tf.clip_by_value(picture, 0, 255), tf.uint8))


def _images(params: Params, data_dir: str) -> Stages:
    del data_dir
    images = np.random.default_rng(1).integers(0, 256, (64, 128, 128, 3), np.uint8)

    def augment(image: tf.Tensor) -> tuple:
        image = tf.cast(image, tf.float32) / 255.0
        for _ in range(params["rounds"]):
            image = tf.image.random_flip_left_right(image)
            image = tf.image.random_saturation(tf.image.random_contrast(image, 0.7, 1.3), 0.7, 1.3)
            image = tf.image.random_hue(image, 0.1)
        return tf.image.random_crop(tf.pad(image, ((4, 4), (4, 4), (0, 0))), (128, 128, 3)), 0

    return (
        ("read", lambda: tf.data.Dataset.from_tensor_slices(images).repeat()),
        ("augment", lambda before: before.map(augment, num_parallel_calls=params["threads"])),
    )


def _text(params: Params, data_dir: str) -> Stages:
    del data_dir
    line = ",".join(f"{number:.6f}" for number in np.random.default_rng(1).random(params["fields"]))

    def parse() -> Iterator[tuple]:
        while True:
            fields = [float(field) for field in line.split(",")]
            yield np.resize(np.asarray(fields, np.float32), 64), np.int32(0)

    return (("generate", lambda: _generated(parse, np.zeros(64, np.float32))),)


def _cache(params: Params, data_dir: str) -> Stages:
    """Keep decoded samples in an LRU cache, which always misses when cycling through more than `capacity`."""
    del data_dir
    data, cache = _jpeg(640, noise=0, seed=1).numpy(), OrderedDict()

    def get(index: np.ndarray) -> np.ndarray:
        key = int(index)
        if key not in cache:
            cache[key] = tf.image.resize(tf.io.decode_jpeg(data, channels=3), (64, 64)).numpy()
            if len(cache) > params["capacity"]:
                cache.popitem(last=False)
        cache.move_to_end(key)
        return cache[key]

    def decode(index: tf.Tensor) -> tuple:
        image = tf.numpy_function(get, [index], tf.float32)
        image.set_shape((64, 64, 3))
        return image, 0

    return (
        ("read", lambda: tf.data.Dataset.range(params["samples"]).repeat()),
        ("decode", lambda before: before.map(decode)),
    )


def _generated(make: Callable[[], Iterator[tuple]], like: np.ndarray) -> tf.data.Dataset:
    signature = (tf.TensorSpec(like.shape, like.dtype), tf.TensorSpec((), tf.int32))
    return tf.data.Dataset.from_generator(make, output_signature=signature)


SOURCES: Mapping[str, Callable[[Params, str], Stages]] = {
    "store": _store, "disk": _disk, "jpegs": _jpegs, "images": _images, "text": _text, "cache": _cache,
}  # fmt: skip
