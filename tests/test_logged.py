import io

import pytest
from rich.console import Console

from harness.cli.console import Terminal
from harness.progress import LoggedTask


def test_a_log_has_the_first_note_and_then_a_line_every_twenty_seconds():
    now, lines = [100.0], list[str]()
    task = LoggedTask(lines.append, "Trials", 4.0, clock=lambda: now[0])
    for _ in range(120):
        task.note(f"tuned, window {now[0] - 100:g}")
        now[0] += 0.5
        task.advance(0.015625)
    assert lines == [
        "Trials:   0 %    0 s  tuned, window 0",
        "Trials:  16 %   20 s  tuned, window 19.5",
        "Trials:  31 %   40 s  tuned, window 39.5",
        "Trials:  47 %   60 s  tuned, window 59.5",
    ]


@pytest.mark.parametrize("forced", [False, True])
def test_a_log_gets_no_control_characters_even_where_colour_is_forced(forced, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1") if forced else monkeypatch.delenv("FORCE_COLOR", raising=False)
    file = io.StringIO()
    with Terminal(Console(file=file, width=20, stderr=True)).task("Trials", 2.0) as task:
        task.note("mlp on cpu: as long as it is")
        task.advance(1)
    assert file.getvalue() == ("Trials:   0 %    0 s  mlp on cpu: as long as it is\n")
