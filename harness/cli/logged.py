"""Progress where there is no terminal, as in a CI job: plain lines, few enough to be read later."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console
from rich.text import Text

# So long nothing is said at most, while the work goes on: CI services take a silent job for a hung one.
ALIVE_EVERY_S = 30.0


class LoggedTask:
    """A harness.progress.Task for logs: a line has the share done, the time since the task began, the note.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        console: Console,
        label: str,
        total: float | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console
        self._label = label
        self._total = total
        self._clock = clock
        self._done = 0.0
        self._note = ""
        self._begun = clock()
        self._said: float | None = None

    def advance(self, amount: float) -> None:
        """Move on, and say so where nothing was said for long."""
        self._done += amount
        self._say_if_due()

    def note(self, text: str, *, minor: bool = False) -> None:
        """Say `text` if it is new; a minor one only as the first, or when a line is due."""
        new = text != self._note
        self._note = text
        if new and not (minor and self._said is not None):
            self._say()
        else:
            self._say_if_due()

    def _say_if_due(self) -> None:
        if self._clock() - (self._begun if self._said is None else self._said) >= ALIVE_EVERY_S:
            self._say()

    def _say(self) -> None:
        self._said = self._clock()
        share = f" {100 * self._done / self._total:3.0f} %" if self._total else ""
        line = f"{self._label}:{share} {self._said - self._begun:4.0f} s  {self._note}"
        self._console.print(Text(line.rstrip()), soft_wrap=True)
