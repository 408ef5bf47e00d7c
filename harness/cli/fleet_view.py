"""One live view of all nodes: a line each in a terminal, a line for each change in a log."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from harness.analysis.scaling import Point
from harness.fleet.model import Beat, State, Task

# More nodes than a screen has lines: the rest is told in numbers.
MOST_ROWS = 30
_STYLE = {
    State.WAITING: "dim",
    State.STARTING: "dim",
    State.RUNNING: "cyan",
    State.DONE: "green",
    State.FAILED: "bold red",
    State.LOST: "bold red",
    State.MISSING: "bold red",
}
_FIRST = {state: rank for rank, state in enumerate(
    (State.RUNNING, State.FAILED, State.LOST, State.MISSING, State.STARTING, State.WAITING, State.DONE)
)}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    kind: str
    state: State
    beat: Beat | None = None
    began_s: float = 0.0
    ended_s: float = 0.0


class FleetView:
    """A driver.Board on standard error.

    Args:
        console: where to.
        quiet: show nothing but sentences that stay.
    """

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet
        self._rows: dict[str, _Row] = {}
        self._live: Live | None = None

    def __enter__(self) -> FleetView:
        if self._console.is_terminal and not self._quiet:
            self._live = Live(
                get_renderable=self.table, console=self._console, refresh_per_second=4, transient=True
            )
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, task: Task, state: State, *, beat: Beat | None = None, note: str = "") -> None:
        """Show a task's state; `beat` is how far it is, `note` a sentence that stays."""
        before = self._rows.get(task.folder)
        row = before or _Row(kind=task.kind, state=state)
        now = time.monotonic()
        if state is State.RUNNING and not row.began_s:
            row = replace(row, began_s=now)
        if state in (State.DONE, State.FAILED, State.LOST, State.MISSING):
            row = replace(row, ended_s=now)
        self._rows[task.folder] = replace(row, state=state, beat=beat or row.beat)
        if note:
            self._line(Text(note, style=_STYLE[state] if state in (State.LOST, State.MISSING) else ""))
        elif self._live is None and not self._quiet and (before is None or before.state is not state):
            self._line(Text(f"{task.folder}: {state.value}"))

    def line(self, text: str) -> None:
        """Print one line that stays."""
        if not self._quiet:
            self._line(Text(text))

    def table(self) -> RenderableType:
        """Return how far every node is."""
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for name in ("node", "kind", "state", "trials", "time", "now"):
            table.add_column(name, no_wrap=name != "kind", overflow="ellipsis")
        rows = sorted(self._rows.items(), key=lambda item: (_FIRST[item[1].state], item[0]))
        for name, row in rows[:MOST_ROWS]:
            state = Text(row.state.value, style=_STYLE[row.state])
            now = Text(_now(row), style="dim")
            table.add_row(Text(name), Text(row.kind, style="dim"), state, _count(row.beat), _time(row), now)
        counts = Counter(row.state for row in self._rows.values())
        total = ", ".join(f"{counts[state]} {state.value}" for state in State if counts[state])
        return Group(table, Text(f"{len(self._rows)} nodes: {total}"))

    def _line(self, text: Text) -> None:
        self._console.print(text, soft_wrap=True)


def scaling_table(points: Sequence[Point]) -> Table:
    """Return a table of how training speeds up over workers."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("training together")
    for name in ("workers", "samples/s", "efficiency", "interval", "ms/step", "exchange ms", "sent MB/s"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in points:
        share = one.efficiency
        table.add_row(
            Text(f"{one.workload} {one.device} {one.leg}"),
            str(one.workers),
            f"{one.throughput.median:,.0f}",
            "-" if share is None else f"{100 * share.median:.0f} %",
            "-" if share is None or share.n < 2 else f"{100 * share.low:.0f} to {100 * share.high:.0f} %",
            f"{one.step_time.median * 1e3:.3g}",
            "-" if one.exchange_s is None else f"{one.exchange_s * 1e3:.3g}",
            "-" if one.sent_bytes_per_s is None else f"{one.sent_bytes_per_s / 1e6:.3g}",
        )
    return table


def _count(beat: Beat | None) -> str:
    if beat is None or beat.label != "Trials" or not beat.total:
        return "-"
    return f"{beat.done:.1f}/{beat.total:.0f}"


def _time(row: _Row) -> str:
    if not row.began_s:
        return "-"
    minutes, seconds = divmod(int((row.ended_s or time.monotonic()) - row.began_s), 60)
    return f"{minutes}:{seconds:02d}"


def _now(row: _Row) -> str:
    if row.state is not State.RUNNING or row.beat is None:
        return ""
    return row.beat.note if row.beat.label == "Trials" else f"{row.beat.label} {row.beat.note}".strip()
