"""Let blocking code, such as Keras fit, take turns: one thread a variant, of which exactly one runs at a
time.

Keras fit cannot be left and entered again without a new iterator and a cold pipeline. In a thread of its
own it stops inside a callback while another variant is measured, and goes on where it was.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

# A variant's pipeline is given so long to fill its buffers: it has come to rest when the process uses less
# than this share of a CPU for a moment.
REST_S, REST_SLICE_S, REST_SHARE = 0.5, 0.01, 0.2


class Pausable:
    """A body of code that pauses where it says so.

    Args:
        name: the thread's name.
        body: called with this object's `pause`; what it raises, `resume` raises.
    """

    def __init__(self, name: str, body: Callable[[Callable[[], Any]], None]) -> None:
        self._body = body
        self._orders: queue.Queue[Any] = queue.Queue(1)
        self._reports: queue.Queue[BaseException | None] = queue.Queue(1)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.ended = False

    def resume(self, order: Any) -> None:
        """Let the body run, with `order` as what its `pause` returns, until it pauses again or ends."""
        if self.ended:
            raise RuntimeError(f"{self._thread.name} has ended")
        if self._thread.ident is None:
            self._thread.start()
        else:
            self._orders.put(order)
        error = self._reports.get()
        if self.ended:
            self._thread.join()
        if error is not None:
            raise error

    def _pause(self) -> Any:
        self._reports.put(None)
        return self._orders.get()

    def _run(self) -> None:
        error: BaseException | None = None
        try:
            self._body(self._pause)
        except BaseException as raised:  # handed over to resume(), which raises it
            error = raised
        self.ended = True
        self._reports.put(error)


class Gate:
    """What a loader's workers pass before each batch; closed while its variant is not the one that runs.

    Otherwise they would go on until their queue is full, at the cost of the variant that is measured then,
    and their own variant would find more in the queue than it made.
    """

    def __init__(self) -> None:
        self._open = threading.Event()
        self._open.set()

    def close(self) -> None:
        """Let no worker pass."""
        self._open.clear()

    def open(self) -> None:
        """Let them pass."""
        self._open.set()

    def wait(self) -> None:
        """Pass it."""
        self._open.wait()


def rest() -> None:
    """Wait until a paused variant's pipeline no longer works ahead, which would slow the next variant down."""
    deadline = time.monotonic() + REST_S
    while time.monotonic() < deadline:
        before = time.process_time()
        time.sleep(REST_SLICE_S)
        if time.process_time() - before < REST_SHARE * REST_SLICE_S:
            return


def measure_in_turn(
    bodies: Mapping[str, Callable[[Callable[[], Any]], None]],
    *,
    windows: Mapping[str, int],
    failed: Callable[[str, Exception], bool],
) -> None:
    """Set every variant up, measure them window by window in turn, end them.

    A variant that fails is dropped, so that it costs the others nothing; in the end the first failure is
    raised.

    Args:
        bodies: variant -> its code, as Pausable runs it; set up in this order.
        windows: variant -> how many times it is measured.
        failed: is told of each variant that raised, and says whether that is a failure of the trial.
    """
    running: dict[str, Pausable] = {}
    failures: list[Exception] = []

    def resume(variant: str, order: bool) -> None:
        one = running[variant]
        try:
            one.resume(order)
        except Exception as error:  # whatever a variant raises
            if failed(variant, error):
                failures.append(error)
        if one.ended:
            del running[variant]
        rest()

    for variant, body in bodies.items():
        running[variant] = Pausable(variant, body)
        resume(variant, True)
    for window in range(max((windows[variant] for variant in bodies), default=0)):
        order = [variant for variant in running if window < windows[variant]]
        # Each round starts with another variant, so that none always runs after the same neighbour.
        shift = window % max(len(order), 1)
        for variant in order[shift:] + order[:shift]:
            resume(variant, True)
    for variant in list(running):
        resume(variant, False)
    if failures:
        raise failures[0]
