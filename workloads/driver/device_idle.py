"""Detect whether the device is idle while the host waits, by waiting for its results in a thread."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class Completions:
    """Track when results complete, with at most one pending.

    With an asynchronous device the host runs ahead, so that the device may still be busy while the host waits
    for a batch. A thread waits for each result, because completion cannot be observed otherwise.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "completions")
        self._last: Future[int] | None = None

    def close(self) -> None:
        """Wait for the last result and stop the thread."""
        self._thread.shutdown()

    def follow(self, result: Any) -> None:
        """Track a result that has `numpy()`; block until all earlier ones are done.

        Raises:
            Exception: any error of an earlier result.
        """
        earlier, self._last = self._last, self._thread.submit(_done_ns, result)
        if earlier is not None:
            earlier.result()

    def idle_ns(self, start_ns: int, end_ns: int) -> int:
        """Return how long the device was idle during a wait for input, with all tracked results done."""
        if self._last is None or not self._last.done():
            return 0
        return max(0, end_ns - max(start_ns, self._last.result()))


def _done_ns(result: Any) -> int:
    result.numpy()
    return time.monotonic_ns()
