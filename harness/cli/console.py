"""What the terminal shows: bars where there is a terminal, lines where there is none, colour where wanted."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as RichProgress
from rich.text import Text

from harness.errors import TfbenchError
from harness.progress import Task

LABEL_WIDTH = 28
# A log has a line at least so often while work goes on: CI services take a silent job for a hung one.
ALIVE_EVERY_S = 30.0


class _Console(Console):
    """A console whose closed pipe, as after `| head -1`, takes the lines and not the run."""

    def on_broken_pipe(self) -> None:
        """Discard all that follows."""
        self.quiet = True
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())


def err() -> Console:
    """Return the console for progress and messages: standard error."""
    return _Console(stderr=True, highlight=False)


def out() -> Console:
    """Return the console for results: standard output."""
    return _Console(highlight=False)


class _BarTask:
    def __init__(self, bars: RichProgress, task: TaskID) -> None:
        self._bars = bars
        self._task = task

    def advance(self, amount: float) -> None:
        self._bars.advance(self._task, amount)

    def note(self, text: str, *, minor: bool = False) -> None:
        self._bars.update(self._task, note=text)


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
        self._printed_at: float | None = None

    def advance(self, amount: float) -> None:
        """Move on, and say so where nothing was said for long."""
        self._done += amount
        self._print_if_due()

    def note(self, text: str, *, minor: bool = False) -> None:
        """Print `text` if it is new; a minor line only if it is the first, or when one is due."""
        new = text != self._note
        self._note = text
        if new and not (minor and self._printed_at is not None):
            self._print()
        else:
            self._print_if_due()

    def _print_if_due(self) -> None:
        if self._clock() - (self._begun if self._printed_at is None else self._printed_at) >= ALIVE_EVERY_S:
            self._print()

    def _print(self) -> None:
        self._printed_at = self._clock()
        share = f" {100 * self._done / self._total:3.0f} %" if self._total else ""
        line = f"{self._label}:{share} {self._printed_at - self._begun:4.0f} s  {self._note}"
        self._console.print(Text(line.rstrip()), soft_wrap=True)


class Terminal:
    """A harness.progress.Progress on standard error."""

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet

    @contextmanager
    def task(self, label: str, total: float | None, unit: str = "") -> Iterator[Task]:
        """Show a bar while the block runs; lines where standard error is no terminal."""
        if self._quiet:
            yield LoggedTask(Console(quiet=True), label, total)
            return
        if not is_screen(self._console):
            yield LoggedTask(self._console, label, total)
            return
        count = (DownloadColumn(),) if unit == "B" else (MofNCompleteColumn(),) if total else ()
        columns = (
            SpinnerColumn(),
            TextColumn(f"{{task.description:<{LABEL_WIDTH}}}"),
            BarColumn(bar_width=24),
            *count,
            TimeElapsedColumn(),
            *((TextColumn("left"), TimeRemainingColumn()) if total else ()),
            TextColumn("[dim]{task.fields[note]}"),
        )
        with RichProgress(*columns, console=self._console, transient=True) as bars:
            yield _BarTask(bars, bars.add_task(label, total=total, note=""))

    def line(self, text: str) -> None:
        """Print one line that stays."""
        if not self._quiet:
            self._console.print(Text(text), soft_wrap=True)

    def show(self, what: RenderableType) -> None:
        """Print a table or the like that stays."""
        if not self._quiet:
            self._console.print(what)


def is_screen(console: Console) -> bool:
    """Return whether lines can be redrawn; FORCE_COLOR makes rich treat a log as a terminal too."""
    return console.is_terminal and console.file.isatty()


def show_error(console: Console, error: TfbenchError) -> None:
    """Print what happened and what to try."""
    console.print(Text.assemble(("tfbench: ", "bold red"), error.message), soft_wrap=True)
    console.print(Text.assemble(("Try: ", "bold"), error.hint), soft_wrap=True)
