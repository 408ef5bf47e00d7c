"""One NVML initialisation that every NVML source of a trial shares, and its renewal after a driver reset."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pynvml

_DRAIN_S = 0.5
_FIRST_PAUSE_NS = 1_000_000_000


class Session:
    """NVML, opened by the first user and closed by the last.

    NVML keeps counting its initialisations for the process; handles from before a renewal are not to be
    used after it, hence `generation`.

    Args:
        now_ns: the clock that paces renewals.
    """

    def __init__(self, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._now_ns = now_ns
        self._state = threading.Condition()
        self._users = 0
        self._calls = 0
        self._renewing = False
        self._error: pynvml.NVMLError | None = pynvml.NVMLError(pynvml.NVML_ERROR_UNINITIALIZED)
        self._next_ns = 0
        self._pause_ns = 0
        self.generation = 0

    def open(self) -> None:
        """Become a user of NVML; an initialisation that fails shows at the first call and is tried again."""
        with self._state:
            self._users += 1
            if self._users == 1:
                self._pause_ns = _FIRST_PAUSE_NS
                self._initialise()

    def close(self) -> None:
        """Stop being one."""
        with self._state:
            self._users -= 1
            if self._users == 0:
                self._shut_down()

    @contextmanager
    def call(self) -> Iterator[int]:
        """Hold renewals off while NVML is used; gives the generation.

        Raises:
            NVMLError: NVML could not be initialised.
        """
        with self._state:
            # Otherwise sources that call all the time would never let a renewal through.
            self._state.wait_for(lambda: not self._renewing, timeout=_DRAIN_S)
            if self._error is not None and self._now_ns() >= self._next_ns:
                self._initialise()
            if self._error is not None:
                raise self._error
            self._calls += 1
            generation = self.generation
        try:
            yield generation
        finally:
            with self._state:
                self._calls -= 1
                self._state.notify_all()

    def renew(self, generation: int) -> bool:
        """Shut NVML down and initialise it anew; return whether that was done.

        Each blinds the readings of every other GPU, so that they come at growing distances (1 s, 2 s,
        4 s and so on), and only once for all who saw `generation` fail.
        """
        with self._state:
            if generation != self.generation or self._now_ns() < self._next_ns:
                return False
            self._renewing = True
            try:
                if not self._state.wait_for(lambda: self._calls == 0, timeout=_DRAIN_S):
                    self._next_ns = self._now_ns() + self._pause_ns
                    return False
                self._shut_down()
                self._initialise()
            finally:
                self._renewing = False
                self._state.notify_all()
            return True

    def _initialise(self) -> None:
        self._next_ns = self._now_ns() + self._pause_ns
        self._pause_ns *= 2
        self.generation += 1
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            self._error = error
        else:
            self._error = None

    def _shut_down(self) -> None:
        if self._error is None:
            with suppress(pynvml.NVMLError):
                pynvml.nvmlShutdown()
        self._error = pynvml.NVMLError(pynvml.NVML_ERROR_UNINITIALIZED)
