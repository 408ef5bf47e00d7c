"""Progress reporting without printing: the command line shows it, tests record it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class Task(Protocol):
    """A progress bar with a note."""

    def advance(self, amount: float) -> None:
        """Advance by `amount` of the total; 0 shows that the work is in progress."""

    def note(self, text: str) -> None:
        """Show `text` next to the bar."""


class Progress(Protocol):
    """Receiver of progress reports."""

    def task(self, label: str, total: float | None) -> AbstractContextManager[Task]:
        """Open a bar; total None is a spinner."""

    def line(self, text: str) -> None:
        """Print a permanent line."""


class LoggedTask:
    """A Task that periodically writes a line with the share done, the elapsed seconds and the note."""

    def __init__(
        self,
        write: Callable[[str], None],
        label: str,
        total: float | None,
        *,
        # Interval of log lines, because CI services consider a silent job hung.
        every_s: float = 20.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._write = write
        self._label = label
        self._total = total
        self._every_s = every_s
        self._clock = clock
        self._done = 0.0
        self._note = ""
        self._begun = clock()
        self._due = self._begun + every_s

    def advance(self, amount: float) -> None:
        """Advance, and write a line if one is due."""
        self._done += amount
        now = self._clock()
        if now >= self._due:
            self._due = now + self._every_s
            share = f" {min(100.0, 100 * self._done / self._total):3.0f} %" if self._total else ""
            self._write(f"{self._label}:{share} {now - self._begun:4.0f} s  {self._note}".rstrip())

    def note(self, text: str) -> None:
        """End the next lines with `text`; the first note is written at once."""
        if not self._note:
            self._due = self._clock()
        self._note = text
        self.advance(0)


class Silent:
    """A Progress that shows nothing."""

    def task(self, label: str, total: float | None) -> AbstractContextManager[Task]:
        """Return a task that shows nothing."""
        return nullcontext(LoggedTask(self.line, label, total))

    def line(self, text: str) -> None:
        """Ignore `text`."""
