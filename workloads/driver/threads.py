"""Threads of a script that take CPU time while its call is measured."""

from __future__ import annotations

import threading
import time

# Less is not worth telling, as a share of one CPU.
_SHARE = 0.1


class BusyThreads:
    """The CPU time of the threads that a script had started when its call began."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        ours = (threading.current_thread(), threading.main_thread())
        self._used_s = {each: _cpu_s(each) for each in threading.enumerate() if each not in ours}

    def described(self, name: str) -> str:
        """Return a sentence on those that have been busy since then; "" if none was."""
        passed_s = time.monotonic() - self._began
        shares = {
            thread.name: (_cpu_s(thread) - before_s) / passed_s
            for thread, before_s in self._used_s.items()
            if thread.is_alive()
        }
        busy = [f"{thread} {share:.0%}" for thread, share in shares.items() if share >= _SHARE]
        if not busy:
            return ""
        return (
            f"Beside the training, threads of {name} took CPU time ({', '.join(busy)} of one CPU), for which Keras' "
            "own Python waits. Let them sleep longer, or be processes."
        )


def _cpu_s(thread: threading.Thread) -> float:
    if thread.ident is None:
        return 0.0
    try:
        return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
    except OSError:  # it has just ended
        return 0.0
