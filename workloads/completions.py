"""When asynchronous results were done, seen from a thread of its own; and which waiting that was idleness."""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


def idle_ns(asked_ns: int, got_ns: int, done_ns: int | None) -> int:
    """Return how much of a wait for input the device was idle.

    Args:
        asked_ns, got_ns: when the next batch was asked for and came.
        done_ns: when the device had done all earlier steps, None when it is still at work.
    """
    return 0 if done_ns is None else max(0, got_ns - max(asked_ns, done_ns))


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

    def last_ns(self) -> int | None:
        """Return when the last followed result was done, None when it is not, or there was none."""
        return self._last.result() if self._last is not None and self._last.done() else None


def _done_ns(result: Any) -> int:
    result.numpy()
    return time.monotonic_ns()
