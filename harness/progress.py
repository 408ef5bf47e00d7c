"""How the harness says how far it is, without printing: the command line shows it, tests record it."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

# A log has a line so often: CI services take a silent job for a hung one.
LINE_EVERY_S = 20.0


class Task(Protocol):
    """One bar: `advance` by some of its total, `note` a few words beside it."""

    def advance(self, amount: float) -> None:
        """Move on by `amount` of the task's total; by 0 to say that the work still goes on."""

    def note(self, text: str) -> None:
        """Show `text` beside the bar."""


class Progress(Protocol):
    """Where long work reports to."""

    def task(self, label: str, total: float | None) -> AbstractContextManager[Task]:
        """Open a bar; total None is a spinner."""

    def line(self, text: str) -> None:
        """Print a line that stays on the screen."""


class LoggedTask:
    """A Task of lines, now and then: the share done, the seconds since it began, and the note.

    Args:
        write: takes a line.
        every_s: seconds between two lines while work goes on.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        write: Callable[[str], None],
        label: str,
        total: float | None,
        *,
        every_s: float = LINE_EVERY_S,
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
        """Move on, and write a line when one is due."""
        self._done += amount
        now = self._clock()
        if now >= self._due:
            self._due = now + self._every_s
            share = f" {100 * self._done / self._total:3.0f} %" if self._total else ""
            self._write(f"{self._label}:{share} {now - self._begun:4.0f} s  {self._note}".rstrip())

    def note(self, text: str) -> None:
        """Have the next line end with `text`; the first note is written at once."""
        if not self._note:
            self._due = self._clock()
        self._note = text
        self.advance(0)


class _SilentTask:
    def advance(self, amount: float) -> None:
        pass

    def note(self, text: str) -> None:
        pass


class Silent:
    """A Progress that shows nothing."""

    def task(self, label: str, total: float | None) -> AbstractContextManager[Task]:
        """Return a bar that nobody sees."""
        return nullcontext(_SilentTask())

    def line(self, text: str) -> None:
        """Drop `text`."""
