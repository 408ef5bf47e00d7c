"""Progress in a CI job's log: what is said when, and that none of it is a control character."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from harness.cli.console import LoggedTask, Terminal


class Log:
    """A log with a clock that a test moves."""

    def __init__(self, total: float | None = 4.0) -> None:
        self.now = 100.0
        self._file = io.StringIO()
        console = Console(file=self._file, width=20)
        self.task = LoggedTask(console, "Trials", total, clock=lambda: self.now)

    def lines(self) -> list[str]:
        """Return the lines since the last call."""
        text = self._file.getvalue().splitlines()
        self._file.seek(0)
        self._file.truncate()
        return text


def test_every_note_is_told_but_of_minor_ones_only_the_first() -> None:
    log = Log(total=None)
    for number in range(3):
        log.task.note(f"{number} MB", minor=True)
    for text in ("unpacking", "unpacking", "linking"):
        log.task.note(text)
    message = ["0 MB", "unpacking", "linking"]
    assert log.lines() == [f"Trials:    0 s  {text}" for text in message]


def test_work_that_goes_on_is_told_every_half_minute() -> None:
    log = Log()
    log.task.note("tuned")
    log.lines()
    for _ in range(180):
        log.now += 0.5
        log.task.advance(0.015625)
        log.task.note(f"tuned, window {int(log.now)}", minor=True)
    assert log.lines() == [
        "Trials:  23 %   30 s  tuned, window 129",
        "Trials:  47 %   60 s  tuned, window 159",
        "Trials:  70 %   90 s  tuned, window 189",
    ]


def test_work_without_notes_is_told_too_but_not_as_it_begins() -> None:
    log = Log(total=None)
    log.task.advance(1)
    assert log.lines() == []
    log.now += 30
    log.task.advance(1)
    assert log.lines() == ["Trials:   30 s"]


@pytest.mark.parametrize("quiet", [False, True])
@pytest.mark.parametrize("forced", [False, True])
def test_a_log_gets_no_control_characters_even_where_colour_is_forced(
    forced: bool, quiet: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1") if forced else monkeypatch.delenv("FORCE_COLOR", raising=False)
    file = io.StringIO()
    with Terminal(Console(file=file, width=20, stderr=True), quiet=quiet).task("Trials", 2.0) as task:
        task.note("mlp on cpu, trial 1: as long as it is")
        task.advance(1)
    assert file.getvalue() == (
        "" if quiet else "Trials:   0 %    0 s  mlp on cpu, trial 1: as long as it is\n"
    )
