"""What TensorFlow says of functions that it traces again and again."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

import tensorflow as tf

_SAID = re.compile(r"calls to <?(?:function )?(?P<name>[^\s>]+).* triggered tf\.function retracing")


class Retraced(logging.Filter):
    """Notes the functions that TensorFlow warns about."""

    def __init__(self) -> None:
        super().__init__()
        self._names: dict[str, None] = {}

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note them inside the block."""
        logger = tf.get_logger()
        logger.addFilter(self)
        try:
            yield
        finally:
            logger.removeFilter(self)

    def filter(self, record: logging.LogRecord) -> bool:
        """Note a record; it is written as usual."""
        if found := _SAID.search(record.getMessage()):
            self._names[found["name"]] = None
        return True

    def described(self) -> str:
        """Return a sentence; "" if there are none."""
        if not self._names:
            return ""
        return (
            f"TensorFlow traces {', '.join(self._names)} in most calls, which takes longer than to run it: give it "
            "tensors instead of Python's numbers, batches of one shape, or tf.function(reduce_retracing=True)."
        )
