"""Terminal output: progress bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO, cast

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
from harness.progress import LoggedTask, Task
from harness.untrusted import printable

# A terminal that is narrower, or COLUMNS=0, hides everything.
_MIN_WIDTH, _WIDTH = 20, 80


# Why standard output could not be written, where somebody wanted a file of it.
lost: list[OSError] = []


class _Lossy:
    """A stream that drops what cannot be written: its terminal or reader may be gone, or its disk full."""

    def __init__(self, stream: TextIO) -> None:
        self._stream: TextIO = getattr(stream, "rich_proxied_file", stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with self._discarding():
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with self._discarding():
            self._stream.flush()

    @contextmanager
    def _discarding(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) and self._stream.fileno() == 1:
                lost.append(error)
            # Python flushes the stream again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._stream.fileno())


def err() -> Console:
    """Return the console for progress and messages: standard error."""
    return _console(cast(TextIO, _Lossy(sys.stderr)))


def best_effort() -> Console:
    """Return standard output as the console for what files have too: its errors never stop a measurement."""
    return _console(cast(TextIO, _Lossy(sys.stdout)))


def out() -> Console:
    """Return standard output as the console for results; writing raises OSError if nobody can read them."""
    return _console(sys.stdout)


def _console(file: TextIO) -> Console:
    console = Console(file=file, highlight=False)
    return console if console.width >= _MIN_WIDTH else Console(file=file, highlight=False, width=_WIDTH)


class _BarTask:
    def __init__(self, bars: RichProgress, task: TaskID) -> None:
        self._bars = bars
        self._task = task

    def advance(self, amount: float) -> None:
        self._bars.advance(self._task, amount)

    def note(self, text: str) -> None:
        self._bars.update(self._task, note=text)


class Terminal:
    """A harness.progress.Progress on standard error."""

    def __init__(self, console: Console) -> None:
        self._console = console
        # With FORCE_COLOR, rich treats a log file as a terminal.
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
        """Show a bar while the block runs, or lines if standard error is not a terminal."""
        if not self._screen:
            yield LoggedTask(self.line, label, total)
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
        """Print a permanent line."""
        self._console.print(Text(printable(text)), soft_wrap=True)


def show_path(label: str, path: Path) -> None:
    """Print where a file is on standard output, without the escapes that may be in its name."""
    best_effort().print(Text(f"{label}: {printable(str(path))}"), soft_wrap=True)


def show_error(error: TfbenchError) -> None:
    """Print the message and hint of an error on standard error, without the escapes of names and engines in them."""
    err().print(Text.assemble(("tfbench: ", "bold red"), printable(error.message)), soft_wrap=True)
    err().print(Text.assemble(("Try: ", "bold"), printable(error.hint)), soft_wrap=True)
