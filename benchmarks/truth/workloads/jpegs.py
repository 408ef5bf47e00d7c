"""Training on JPEG files: read, decode, resize, batch. The heavier the files, the longer decoding takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tensorflow as tf
from simulated import compiled

from workloads.protocol import Data, Workload

OUT = 96
FILES = 4

workload = Workload(
    name="truth-jpegs",
    title="JPEG files decoded and resized, one after the other unless `threads` says otherwise",
    data=Data(name="own", shape=(96, 96, 3), classes=10, train=0, test=0),
    batch_size=8,
    epochs=1,
    params={
        "side": 1024,
        "threads": 1,
        "prefetch": 2,
        "step_us": 0,
        "sample_us": 4000,
        "real": 0,
        "width": 64,
    },
    stages=("read", "decode", "resize", "batch"),
    tuned={"threads": 4},
)


def model(params: dict) -> tf.keras.Model:
    """Return the device."""
    return compiled((OUT, OUT, 3), params)


def dataset(params: dict, data_dir: str) -> tuple:
    """Return the pipeline; the files are made first, in the container's own memory."""
    del data_dir
    files = make_files(params["side"])
    threads = params["threads"]

    def decode(data: tf.Tensor) -> tf.Tensor:
        return tf.io.decode_jpeg(data, channels=3)

    def resize(image: tf.Tensor) -> tuple:
        return tf.image.resize(image, (OUT, OUT)), 0

    return (
        ("read", lambda: tf.data.Dataset.from_tensor_slices(files).repeat().map(tf.io.read_file)),
        ("decode", lambda before: before.map(decode, num_parallel_calls=threads)),
        ("resize", lambda before: before.map(resize, num_parallel_calls=threads)),
        (
            "batch",
            lambda before: before.batch(params["batch_size"], drop_remainder=True).prefetch(
                params["prefetch"]
            ),
        ),
    )


def make_files(side: int) -> list[str]:
    """Write pictures of `side` x `side` pixels in the detail of photographs; return their paths."""
    folder = Path(f"/tmp/jpegs-{side}")  # noqa: S108 - the container's own
    if not folder.exists():
        folder.mkdir()
        random = np.random.default_rng(1)
        for index in range(FILES):
            coarse = random.integers(0, 256, (side // 8, side // 8, 3)).astype(np.float32)
            picture = tf.image.resize(coarse, (side, side)) + 6 * random.standard_normal(
                (side, side, 3), np.float32
            )
            data = tf.io.encode_jpeg(tf.cast(tf.clip_by_value(picture, 0, 255), tf.uint8))
            tf.io.write_file(str(folder / f"{index}.jpg"), data)
    return sorted(str(path) for path in folder.iterdir())
