"""The live view of a fleet: fits the screen, and is a line for each change in a log."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from harness.analysis.scaling import scaled
from harness.cli.fleet_view import FleetView, scaling_table
from harness.fleet.messages import Heartbeat, State
from tests.builders_workers import teams


def screen(width: int = 80, height: int = 24) -> Console:
    return Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)


def drawn(view: FleetView, console: Console) -> list[str]:
    with console.capture() as capture:
        console.print(view.table())
    return [line.rstrip() for line in capture.get().splitlines()]


def heartbeat(note: str, done: float = 1.0) -> Heartbeat:
    return Heartbeat(label="Trials", note=note, done=done, total=3.0)


@pytest.mark.parametrize("width", [80, 40, 200])
def test_a_node_takes_one_line_whatever_it_is_called_and_does(width: int) -> None:
    console = screen(width)
    view = FleetView(console)
    for number in range(5):
        name = f"node-{number}.of-a-very-long-domain-name-in-a-cloud"
        view.show(name, State.RUNNING, heartbeat=heartbeat("cifar100-mlp.cpu.0: baseline, warming up; " * 3))
    view.show("last", State.DONE)
    lines = drawn(view, console)
    assert len(lines) == 7
    assert max(len(line) for line in lines) <= width
    assert lines[0] == "5 running, 1 done"
    assert "running" in lines[1]
    assert "1/3" in lines[1]


@pytest.mark.parametrize("forced", [False, True])
def test_a_log_has_a_line_for_each_change_and_none_for_waiting(
    forced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forced colour makes no screen of a log: a table drawn again and again would fill it."""
    monkeypatch.setenv("FORCE_COLOR", "1") if forced else monkeypatch.delenv("FORCE_COLOR", raising=False)
    file = io.StringIO()
    with FleetView(Console(file=file, width=80)) as view:
        view.show("a", State.WAITING)
        view.show("a", State.RUNNING)
        view.show("a", State.RUNNING, heartbeat=heartbeat("w.cpu.0"))
        view.show("a", State.FAILED, note="a: w.cpu.0: failed. The loss is nan.")
    plain = re.sub(r"\x1b\[[0-9;]*m", "", file.getvalue())
    assert "\x1b" not in plain, "no control characters but those of colour"
    assert plain.splitlines() == ["a: running", "a: w.cpu.0: failed. The loss is nan."]


def test_the_table_of_workers_fits_eighty_columns_and_names_each_variant() -> None:
    console = screen()
    with console.capture() as capture:
        console.print(scaling_table(scaled(teams()).points))
    lines = [line.rstrip() for line in capture.get().splitlines()]
    assert lines[0] == "training together: cifar100-mlp, cpu baseline"
    assert lines[1].split()[:3] == ["workers", "samples/s", "efficiency"]
    assert [line.split()[:4] for line in lines[2:]] == [
        ["1", "1,000", "100", "%"], ["2", "1,600", "80", "%"], ["4", "2,000", "50", "%"],
    ]  # fmt: skip
    assert "…" not in "".join(lines)
