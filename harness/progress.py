"""How the harness says how far it is, without printing: the command line shows it, tests record it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


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
