"""Keras' Python loader as published: ImageDataGenerator.flow_from_directory with workers.

In Keras 3 it is a PyDataset. The partial stages reproduce its work in Python, to measure the cost of each;
the last stage is the published loader itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from operator import getitem
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from workloads.components import augment
from workloads.protocol import Stage

READ, DECODE, RESIZE, AUGMENT, BATCH = range(5)


def stages(params: Mapping[str, Any], data_dir: str) -> Sequence[Stage]:
    """Return the stages read, decode, resize, augment, batch and prefetch, each a PyDataset of batches."""
    folder = str(Path(data_dir, "train"))
    pool = {"workers": params["workers"], "max_queue_size": params["queue_size"]}

    def stage(batch: Callable[[Any, int], Any]) -> Callable[..., Endless]:
        return lambda *_: Endless(lambda: flow(params, folder), batch, **pool)

    parts = enumerate(("read", "decode", "resize", "augment", "batch"))
    return (
        *((name, stage(partial(part_of_batch, upto=upto))) for upto, name in parts),
        ("prefetch", stage(getitem)),
    )


def flow(params: Mapping[str, Any], folder: str) -> Any:
    """Return the published loader: batches of float32[batch, side, side, 3] and labels float32[batch]."""
    augmentation = {"shear_range": augment.SHEAR_DEGREES, "zoom_range": augment.ZOOM, "horizontal_flip": True}
    generator = tf.keras.preprocessing.image.ImageDataGenerator(
        rescale=1.0 / augment.WHITE, **(augmentation if params["augment"] else {})
    )
    loader = generator.flow_from_directory(
        folder,
        target_size=(params["side"], params["side"]),
        batch_size=params["batch_size"],
        class_mode="binary",
    )
    if loader.n < params["batch_size"]:
        raise ValueError(
            f"{loader.n} files are fewer than a batch of {params['batch_size']}. Use a smaller batch_size."
        )
    return loader


class Endless(tf.keras.utils.PyDataset):
    """Repeat a loader's full batches forever, reshuffled on each pass, like the former fit_generator.

    Args:
        make: makes the loader; called for the first batch, so that unused stages do not list files.
        batch: (loader, index) -> a batch.
        workers, max_queue_size: see PyDataset.
    """

    def __init__(
        self, make: Callable[[], Any], batch: Callable[[Any, int], Any], *, workers: int, max_queue_size: int
    ) -> None:
        super().__init__(workers=workers, max_queue_size=max_queue_size)
        self._make = make
        self._batch = batch

    @property
    def num_batches(self) -> None:
        """Return None (endless): the published steps per epoch do not depend on the number of files."""
        return None

    @cached_property
    def _loader(self) -> Any:
        # Keras requests the first batches before it starts its workers.
        loader = self._make()
        loader.on_epoch_end()  # shuffles
        return loader

    def __getitem__(self, index: int) -> Any:
        """Return batch `index`, counted over all passes."""
        batches = self._loader.n // self._loader.batch_size
        if index and index % batches == 0:
            self._loader.on_epoch_end()
        return self._batch(self._loader, index % batches)


def part_of_batch(loader: Any, index: int, *, upto: int) -> tuple[Any, Any]:
    """Process the files of a batch like the loader, up to stage `upto` (READ to BATCH).

    Returns:
        Images for BATCH, placeholders for earlier stages; and placeholder labels.
    """
    size = loader.batch_size
    chosen = loader.index_array[size * index : size * (index + 1)]
    images = [_image(loader, loader.filepaths[number], upto) for number in chosen]
    return np.stack(images) if upto == BATCH else np.zeros((size, 1), np.float32), np.zeros(size, np.float32)


def _image(loader: Any, path: str, upto: int) -> Any:
    if upto == READ:
        return Path(path).read_bytes()
    image = tf.keras.utils.load_img(path, target_size=loader.target_size if upto >= RESIZE else None)
    image.load()  # Pillow decodes lazily
    if upto < AUGMENT:
        return image
    generator = loader.image_data_generator
    return generator.standardize(generator.random_transform(tf.keras.utils.img_to_array(image)))
