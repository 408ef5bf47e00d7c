"""Threads of a script that take CPU time while its call is measured."""

from __future__ import annotations

import threading
import time

from workloads.driver.own_code.reached import is_own

# Less is not worth telling, as a share of one CPU.
_SHARE = 0.1


class BusyThreads:
    """The CPU time of the threads that a script had started when its call began."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._used_s = {each: _cpu_s(each) for each in threading.enumerate() if _is_of_script(each)}

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


def _is_of_script(thread: threading.Thread) -> bool:
    """Return whether what a thread runs is a function of the script, or a method of its class."""
    runs = getattr(thread, "_target", None) or thread.run
    return is_own(str(getattr(runs, "__module__", ""))) and thread is not threading.current_thread()


def _cpu_s(thread: threading.Thread) -> float:
    if thread.ident is None:
        return 0.0
    try:
        return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
    except OSError:  # it has just ended
        return 0.0
