"""The live view of a fleet: fits the screen, keeps rows in their places, counts only time at work."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from harness.analysis.scaling import scaled
from harness.cli.fleet_view import FleetView, scaling_table
from harness.fleet.messages import Heartbeat, State, Task
from tests.builders_workers import teams


def screen(width: int = 80, height: int = 24) -> Console:
    return Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)


def drawn(view: FleetView, console: Console) -> list[str]:
    with console.capture() as capture:
        console.print(view.table())
    return [line.rstrip() for line in capture.get().splitlines()]


def task(name: str, kind: str = "2x AMD EPYC, 24 GiB") -> Task:
    return Task(folder=name, node=name, kind=kind)


def heartbeat(note: str, done: float = 1.0) -> Heartbeat:
    return Heartbeat(label="Trials", note=note, done=done, total=3.0)


def test_nothing_is_drawn_before_there_is_a_node() -> None:
    console = screen()
    assert drawn(FleetView(console), console) == [""]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 8), (200, 60)])
def test_it_fits_the_screen_whatever_nodes_are_called_and_do(width: int, height: int) -> None:
    console = screen(width, height)
    view = FleetView(console)
    for number in range(50):
        kind = f"8x NVIDIA H200, 192x CPU of a long name {number}, 2048 GiB"
        one = task(f"node-{number}.of-a-very-long-domain-name-in-a-cloud", kind)
        view.show(one, State.RUNNING, heartbeat=heartbeat("cifar100-mlp.cpu.0: baseline, warming up; " * 3))
    lines = drawn(view, console)
    assert len(lines) < height
    assert max(len(line) for line in lines) <= width
    assert "50 running" in lines[-1]
    assert "running" in lines[1]


def test_rows_keep_their_places_while_states_change() -> None:
    console = screen()
    view = FleetView(console)
    for name in ("node-10", "node-9", "node-1"):
        view.show(task(name), State.WAITING)
    view.show(task("node-9"), State.RUNNING, heartbeat=heartbeat("w.cpu.0"))
    view.show(task("node-10"), State.DONE)
    lines = drawn(view, console)
    assert [line.split()[0] for line in lines[1:-1]] == ["node-10", "node-9", "node-1"]
    assert lines[-1] == "1 waiting, 1 running, 1 done"


def test_where_not_all_fit_failures_come_before_those_that_wait() -> None:
    console = screen(height=6)
    view = FleetView(console)
    for number in range(9):
        view.show(task(f"node-{number}"), State.WAITING)
    view.show(task("node-8"), State.LOST, note="Node node-8 died.")
    lines = drawn(view, console)
    assert lines[1].split()[:2] == ["node-8", "lost"]
    assert lines[-1] == "8 waiting, 1 lost (6 not shown)"


def test_time_is_that_at_work() -> None:
    console = screen()
    moments = iter([0.0, 10.0, 100.0, 105.0])
    view = FleetView(console, clock=lambda: next(moments, 165.0))
    for state in (State.RUNNING, State.WAITING, State.RUNNING, State.DONE):
        view.show(task("workers-2"), state)
    assert drawn(view, console)[1].split()[3] == "0:15"


@pytest.mark.parametrize("forced", [False, True])
def test_a_log_has_a_line_for_each_change_and_none_for_waiting(
    forced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forced colour makes no screen of a log: a table drawn again and again would fill it."""
    monkeypatch.setenv("FORCE_COLOR", "1") if forced else monkeypatch.delenv("FORCE_COLOR", raising=False)
    file = io.StringIO()
    with FleetView(Console(file=file, width=80)) as view:
        view.show(task("a"), State.WAITING)
        view.show(task("a"), State.RUNNING)
        view.show(task("a"), State.RUNNING, heartbeat=heartbeat("w.cpu.0"))
        view.show(task("a"), State.FAILED, note="a: w.cpu.0: failed. The loss is nan.")
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


def test_without_a_terminal_a_node_that_starts_again_and_again_is_told_once() -> None:
    """Its machine is busy: why it waits is a note, and each new try is none."""
    console = Console(file=(lines := io.StringIO()), width=80)
    with FleetView(console) as view:
        for attempt in range(3):
            view.show(task("a"), State.STARTING)
            view.show(task("a"), State.RUNNING)
            view.show(task("a"), State.WAITING, note="" if attempt else "a waits: process 7 measures here.")
        view.show(task("a"), State.DONE)
    assert lines.getvalue().splitlines() == [
        "a: starting", "a: running", "a waits: process 7 measures here.", "a: done",
    ]  # fmt: skip
