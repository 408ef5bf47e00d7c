"""When asynchronous results were done, seen from a thread of its own; and which waiting that was idleness."""

from __future__ import annotations

import queue
import threading
import time
from types import TracebackType
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
        self._results: queue.Queue[Any] = queue.Queue()
        self._thread = threading.Thread(target=self._wait, name="completions", daemon=True)
        self._changed = threading.Condition()
        self._followed = 0
        self._done = 0
        self._last_ns = time.monotonic_ns()
        self._error: Exception | None = None

    def __enter__(self) -> Completions:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._results.put(None)
        self._thread.join()

    def follow(self, result: Any) -> None:
        """Follow a result that has `numpy()`; return once all before it are done.

        Raises:
            Exception: what an earlier result raised when it was waited for.
        """
        self._results.put(result)
        with self._changed:
            self._followed += 1
            self._changed.wait_for(lambda: self._followed - self._done <= 1)
            if self._error is not None:
                raise self._error

    def last_ns(self) -> int | None:
        """Return when the last followed result was done, None when it is not."""
        with self._changed:
            return self._last_ns if self._done == self._followed else None

    def _wait(self) -> None:
        while (result := self._results.get()) is not None:
            try:
                result.numpy()
            except Exception as error:  # handed over to follow(), which raises it
                self._error = error
            with self._changed:
                self._last_ns = time.monotonic_ns()
                self._done += 1
                self._changed.notify()
