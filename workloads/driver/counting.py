"""The samples of an input whose batches have no known size, counted as they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import tensorflow as tf
from keras.src.trainers.data_adapters.py_dataset_adapter import PyDatasetAdapter

from workloads.driver.call import rows, rows_in_graph

# By what part the mean size of batches may differ from the first's without a word.
_ALIKE = 0.05
# Of a pipeline, the sizes of so many batches are kept until they are asked for.
_KEPT = 1024


class Counted:
    """The sizes of the batches that are read of an input, in their order, which is that of its steps."""

    def __init__(self) -> None:
        self._until = [0]  # samples of the first batches, by their number
        self._more: Callable[[int], list[int]] | None = None

    def add(self, size: int) -> None:
        """Count a batch."""
        self._until.append(self._until[-1] + size)

    def samples(self, steps: int) -> int:
        """Return the samples of the first `steps` batches."""
        known = len(self._until) - 1
        if steps > known and self._more:
            for size in self._more(known):
                self.add(size)
        known = min(steps, len(self._until) - 1)
        return self._until[known] + round((steps - known) * self.mean)

    @property
    def mean(self) -> float:
        """Samples of a batch in the mean."""
        return self._until[-1] / max(1, len(self._until) - 1)

    def uneven(self, first: int) -> bool:
        """Return whether batches differ in size, the first of which has `first` samples."""
        return len(self._until) > 1 and abs(self.mean - first) > _ALIKE * first

    @contextmanager
    def of(self, given: Any) -> Iterator[Any]:
        """Count what is read of an input.

        Yields:
            The input to read instead.
        """
        if not isinstance(given, tf.keras.utils.PyDataset):
            yield self._pipeline(given) if isinstance(given, tf.data.Dataset) else self._generator(given)
            return
        iterator_of = PyDatasetAdapter._get_iterator

        def iterated(adapter: Any) -> Iterator[Any]:
            found = iterator_of(adapter)
            return self._generator(found) if adapter.py_dataset is given else found

        # Not what Keras reads beforehand, to know the types.
        with patch.object(PyDatasetAdapter, "_get_iterator", iterated):
            yield given

    def _generator(self, given: Iterator[Any]) -> Iterator[Any]:
        for batch in given:
            self.add(rows(batch))
            yield batch

    def _pipeline(self, given: tf.data.Dataset) -> tf.data.Dataset:
        # The number of batches, and the sizes of the last ones. Python in a pipeline would be slower.
        with tf.device("CPU:0"):
            read = tf.Variable(tf.zeros(1 + _KEPT, tf.int64), trainable=False)
        is_tuple = isinstance(given.element_spec, tuple)

        def count(*parts: Any) -> Any:
            batch, number = parts if is_tuple else parts[0], read[0]
            updates = [number + 1, tf.cast(rows_in_graph(batch), tf.int64)]
            with tf.control_dependencies([read.scatter_nd_update([[0], [1 + number % _KEPT]], updates)]):
                return tf.nest.map_structure(tf.identity, batch, expand_composites=True)

        def more(known: int) -> list[int]:
            number, *sizes = read.numpy().tolist()
            return [sizes[each % _KEPT] for each in range(max(known, number - _KEPT), number)]

        self._more = more
        return given.map(count)
