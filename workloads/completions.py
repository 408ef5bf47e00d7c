"""Whether a device is idle while the host waits: its results are waited for in a thread of its own."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class Completions:
    """Follow results, each until it is done; at most one is left undone when another is followed.

    An asynchronous device lets the host run ahead: that the host waits for a batch does not say that the
    device does. Results are waited for in a thread, since only waiting tells when they are done.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "completions")
        self._last: Future[int] | None = None

    def close(self) -> None:
        """Wait for the last result, and end the thread."""
        self._thread.shutdown()

    def follow(self, result: Any) -> None:
        """Follow a result that has `numpy()`; return once all before it are done.

        Raises:
            Exception: what an earlier result raised when it was waited for.
        """
        earlier, self._last = self._last, self._thread.submit(_done_ns, result)
        if earlier is not None:
            earlier.result()

    def idle_ns(self, asked_ns: int, got_ns: int) -> int:
        """Return how much of a wait for input the device had nothing to do: all that it followed was done."""
        if self._last is None or not self._last.done():
            return 0
        return max(0, got_ns - max(asked_ns, self._last.result()))


def _done_ns(result: Any) -> int:
    result.numpy()
    return time.monotonic_ns()
