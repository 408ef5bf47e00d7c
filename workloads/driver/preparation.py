"""What a script does before its measured call: users wait for that too."""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict

from workloads.driver.sites import where

_INTERVAL_S = 0.02
# Less is not worth telling, as a share of the script's time and in seconds.
_SHARE, _LEAST_S = 0.1, 1.0
_LINES = 3


class Preparation:
    """Seconds of a script before its call, by its lines; sampled from another thread, for the thread that makes it."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._lines: defaultdict[tuple[str, int], float] = defaultdict(float)
        self._done = threading.Event()
        self._began = time.monotonic()
        self.seconds = 0.0

    def __enter__(self) -> Preparation:
        self._began = time.monotonic()
        threading.Thread(target=self._sample, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.end()

    def end(self) -> None:
        """End the preparation: the call begins."""
        if not self._done.is_set():
            self.seconds = time.monotonic() - self._began
            self._done.set()

    def _sample(self) -> None:
        before = self._began
        while not self._done.wait(_INTERVAL_S):
            now = time.monotonic()
            script = getattr(sys.modules["__main__"], "__file__", "")
            frame = sys._current_frames().get(self._thread)
            while frame is not None and frame.f_code.co_filename != script:
                frame = frame.f_back
            if frame is not None:
                self._lines[script, frame.f_lineno] += now - before
            before = now

    def described(self, name: str, call_s: float) -> str:
        """Return a sentence if the preparation is a large share of the script's time; else "".

        Args:
            call_s: seconds that the whole call takes.
        """
        share = self.seconds / (self.seconds + call_s) if self.seconds else 0.0
        if self.seconds < _LEAST_S or share < _SHARE:
            return ""
        lines = [
            f"{where(*place)} {seconds:.3g} s"
            for place, seconds in sorted(self._lines.items(), key=lambda each: -each[1])[:_LINES]
            if seconds > _SHARE * self.seconds
        ]
        return (
            f"Before the measured call, which takes {call_s:.3g} s in all, {name} needs {self.seconds:.3g} s "
            f"({share:.0%} of both){': ' if lines else ''}{', '.join(lines)}."
        )
