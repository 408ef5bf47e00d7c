"""What the terminal shows: bars where there is a terminal, lines where there is none, colour where wanted."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    SpinnerColumn,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.progress import Progress as RichProgress
from rich.table import Column
from rich.text import Text

from harness.errors import TfbenchError
from harness.progress import Task

# A log has a line so often while work goes on: CI services take a silent job for a hung one.
LINE_EVERY_S = 20.0


def err() -> Console:
    """Return the console for progress and messages: standard error."""
    return Console(stderr=True, highlight=False)


def out() -> Console:
    """Return the console for results: standard output."""
    return Console(highlight=False)


class _BarTask:
    def __init__(self, bars: RichProgress, task: TaskID) -> None:
        self._bars = bars
        self._task = task

    def advance(self, amount: float) -> None:
        self._bars.advance(self._task, amount)

    def note(self, text: str) -> None:
        self._bars.update(self._task, note=text)


class LoggedTask:
    """A harness.progress.Task for logs: now and then a line with the share done, the time it took, and the note.

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
        self._due = self._begun + LINE_EVERY_S

    def advance(self, amount: float) -> None:
        """Move on, and print a line when one is due."""
        self._done += amount
        now = self._clock()
        if now >= self._due:
            self._due = now + LINE_EVERY_S
            share = f" {100 * self._done / self._total:3.0f} %" if self._total else ""
            line = f"{self._label}:{share} {now - self._begun:4.0f} s  {self._note}"
            self._console.print(Text(line.rstrip()), soft_wrap=True)

    def note(self, text: str) -> None:
        """Have the next line end with `text`; the first note is printed at once."""
        if not self._note:
            self._due = self._clock()
        self._note = text
        self.advance(0)


class Terminal:
    """A harness.progress.Progress on standard error."""

    def __init__(self, console: Console) -> None:
        self._console = console
        # FORCE_COLOR makes rich treat a log as a terminal too.
        self._screen = console.is_terminal and console.file.isatty()
        self._bars = RichProgress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False, table_column=Column(width=28, no_wrap=True)),
            BarColumn(bar_width=16),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}", markup=False, table_column=Column(ratio=1, no_wrap=True)),
            expand=True,
            console=console,
            transient=True,
        )

    @contextmanager
    def task(self, label: str, total: float | None) -> Iterator[Task]:
        """Show a bar while the block runs; lines where standard error is no terminal."""
        if not self._screen:
            yield LoggedTask(self._console, label, total)
            return
        bar = self._bars.add_task(label, total=total, note="")
        self._bars.start()
        try:
            yield _BarTask(self._bars, bar)
        finally:
            self._bars.remove_task(bar)
            if not self._bars.tasks:
                self._bars.stop()

    def line(self, text: str) -> None:
        """Print one line that stays."""
        self._console.print(Text(text), soft_wrap=True)


def show_error(error: TfbenchError) -> None:
    """Print on standard error what happened and what to try."""
    err().print(Text.assemble(("tfbench: ", "bold red"), error.message), soft_wrap=True)
    err().print(Text.assemble(("Try: ", "bold"), error.hint), soft_wrap=True)
