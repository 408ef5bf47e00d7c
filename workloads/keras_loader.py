"""Keras' own Python loader as published: ImageDataGenerator.flow_from_directory with its workers.

Keras 3 keeps it, now as a PyDataset. The partial stages do in Python what it does inside, so that each one's
cost can be told; the last stage is the published loader itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from workloads import augment
from workloads.loading import Stage

READ, DECODE, RESIZE, AUGMENT, BATCH = range(5)


def stages(params: Mapping[str, Any], data_dir: str) -> Sequence[Stage]:
    """Return the stages read, decode, resize, augment, batch and prefetch, each a PyDataset of batches."""
    folder = str(Path(data_dir, "train"))
    pool = {"workers": params["workers"], "max_queue_size": params["queue_size"]}

    def partial(upto: int) -> Any:
        return lambda *_: Endless(lambda: Partial(flow(params, folder), upto), **pool)

    return (
        ("read", partial(READ)),
        ("decode", partial(DECODE)),
        ("resize", partial(RESIZE)),
        ("augment", partial(AUGMENT)),
        ("batch", partial(BATCH)),
        ("prefetch", lambda _: Endless(lambda: flow(params, folder), **pool)),
    )


def flow(params: Mapping[str, Any], folder: str) -> Any:
    """Return the published loader: batches of float32[batch, side, side, 3] and labels float32[batch].

    Raises:
        ValueError: there are fewer files than a batch takes.
    """
    moving = {"shear_range": augment.SHEAR_DEGREES, "zoom_range": augment.ZOOM, "horizontal_flip": True}
    generator = tf.keras.preprocessing.image.ImageDataGenerator(
        rescale=1.0 / augment.WHITE, **(moving if params["augment"] else {})
    )
    loader = generator.flow_from_directory(
        folder,
        target_size=(params["side"], params["side"]),
        batch_size=params["batch_size"],
        class_mode="binary",
    )
    if loader.n < params["batch_size"]:
        raise ValueError(f"{loader.n} files are fewer than a batch of {params['batch_size']}.")
    return loader


class Endless(tf.keras.utils.PyDataset):
    """Go through a loader's whole batches again and again, shuffled anew, as fit_generator used to do.

    Args:
        make: makes the loader, with n, batch_size and on_epoch_end; called for the first batch, so that
            the stages before the last one that is wanted list no files.
        workers, max_queue_size: see PyDataset.
    """

    def __init__(self, make: Callable[[], Any], *, workers: int, max_queue_size: int) -> None:
        super().__init__(workers=workers, max_queue_size=max_queue_size)
        self._make = make
        self._making = threading.Lock()
        self._inner: Any = None

    @property
    def num_batches(self) -> None:
        """Say that there is no end: an epoch is as many steps as were published, not the files."""
        return None

    def __getitem__(self, index: int) -> Any:
        """Return batch `index` of all passes."""
        inner = self._made()
        batches = inner.n // inner.batch_size
        if index and index % batches == 0:
            inner.on_epoch_end()
        return inner[index % batches]

    def _made(self) -> Any:
        with self._making:
            if self._inner is None:
                self._inner = self._make()
            return self._inner


class Partial:
    """Do a part of the loader's work on its files, batch by batch.

    Args:
        loader: the published one, for its files and their order.
        upto: READ to BATCH.
    """

    def __init__(self, loader: Any, upto: int) -> None:
        self.n, self.batch_size = loader.n, loader.batch_size
        self._paths = loader.filepaths
        self._side = loader.target_size
        self._images = loader.image_data_generator
        self._upto = upto
        self._order = np.random.permutation(self.n)

    def on_epoch_end(self) -> None:
        """Shuffle."""
        self._order = np.random.permutation(self.n)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        """Return a batch: the pictures when all stages are wanted, else as good as nothing."""
        chosen = self._order[self.batch_size * index : self.batch_size * (index + 1)]
        pictures = [self._one(self._paths[number]) for number in chosen]
        labels = np.zeros(self.batch_size, np.float32)
        if self._upto < BATCH:
            return np.zeros((self.batch_size, 1), np.float32), labels
        return np.stack(pictures), labels

    def _one(self, path: str) -> Any:
        if self._upto == READ:
            return Path(path).read_bytes()
        image = tf.keras.utils.load_img(path, target_size=self._side if self._upto >= RESIZE else None)
        image.load()  # Pillow decodes when it must, and without a resize nothing makes it
        if self._upto < AUGMENT:
            return image
        return self._images.standardize(self._images.random_transform(tf.keras.utils.img_to_array(image)))
