"""One live view of all nodes: a line each in a terminal, a line for each change in a log."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from harness.cli.console import is_screen
from harness.fleet.messages import Heartbeat, State, Task
from harness.model.scaling import Point
from harness.rounding import three_digits

# Of a screen's lines: the heading, the sums, and the one that the cursor is in.
OTHER_LINES = 3
# Where a screen says nothing of its height, and the most that anyone reads.
MOST_ROWS = 40
_GAP = 2
_LEAST = 4
_WORTH = 16  # characters below which a column says nothing
_STYLE = {
    State.WAITING: "dim",
    State.STARTING: "dim",
    State.RUNNING: "cyan",
    State.DONE: "green",
    State.FAILED: "bold red",
    State.LOST: "bold red",
    State.MISSING: "bold red",
}
_BAD = (State.FAILED, State.LOST, State.MISSING)
_FIRST = {state: rank for rank, state in enumerate(
    (State.RUNNING, State.FAILED, State.LOST, State.MISSING, State.STARTING, State.WAITING, State.DONE)
)}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    kind: str
    state: State
    heartbeat: Heartbeat | None = None
    began_s: float | None = None
    spent_s: float = 0.0


class FleetView:
    """A driver.Board on standard error.

    Args:
        console: where to.
        quiet: show nothing but sentences that stay.
        clock: seconds, monotonic.
    """

    def __init__(
        self, console: Console, *, quiet: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._console = console
        self._quiet = quiet
        self._rows: dict[str, _Row] = {}
        # What is in lines already: a node that finds its machine busy starts again and again.
        self._said: set[tuple[str, State]] = set()
        self._live: Live | None = None

    def __enter__(self) -> FleetView:
        if is_screen(self._console) and not self._quiet:
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

    def show(self, task: Task, state: State, *, heartbeat: Heartbeat | None = None, note: str = "") -> None:
        """Show a task's state; `heartbeat` is how far it is, `note` a sentence that stays."""
        before = self._rows.get(task.folder)
        row = before or _Row(kind=task.kind, state=state)
        now = self._clock()
        if state is State.RUNNING and row.began_s is None:
            row = replace(row, began_s=now)
        elif state is not State.RUNNING and row.began_s is not None:
            row = replace(row, spent_s=row.spent_s + now - row.began_s, began_s=None)
        self._rows[task.folder] = replace(row, state=state, heartbeat=heartbeat or row.heartbeat)
        if note:
            self._line(Text(note, style=_STYLE[state] if state in _BAD else ""))
        elif self._live is None and not self._quiet and state is not State.WAITING:
            if (task.folder, state) not in self._said:
                self._line(Text(f"{task.folder}: {state.value}"))
            self._said.add((task.folder, state))

    def line(self, text: str) -> None:
        """Print one line that stays."""
        if not self._quiet:
            self._line(Text(text))

    def table(self) -> RenderableType:
        """Return how far every node is."""
        if not self._rows:
            return Text("")
        rows = sorted(self._rows.items(), key=lambda item: _natural(item[0]))
        room = max(1, min(MOST_ROWS, self._console.height - OTHER_LINES))
        if len(rows) > room:
            # What must be seen first; otherwise every row keeps its place.
            rows.sort(key=lambda item: _FIRST[item[1].state])
        # Nodes of one kind need no column for it: a line that stays has said which.
        kinds = len({row.kind for row in self._rows.values()}) > 1
        widths = _widths([name for name, _ in rows[:room]], self._console.width, kinds=kinds)
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for name, width in widths.items():
            table.add_column(name, no_wrap=True, overflow="ellipsis", width=width)
        for name, row in rows[:room]:
            cells = {
                "": Text(name),
                "state": Text(row.state.value, style=_STYLE[row.state]),
                "trials": Text(_count(row.heartbeat)),
                "time": Text(_time(row, self._clock())),
                "now": Text(_now(row), style="dim"),
                "kind": Text(row.kind, style="dim"),
            }
            table.add_row(*(cells[column] for column in widths))
        counts = Counter(row.state for row in self._rows.values())
        total = ", ".join(f"{counts[state]} {state.value}" for state in State if counts[state])
        hidden = f" ({len(rows) - room} not shown)" if len(rows) > room else ""
        return Group(table, Text(f"{total}{hidden}", no_wrap=True, overflow="ellipsis"))

    def _line(self, text: Text) -> None:
        # A log keeps a sentence on one line; a screen breaks it between words, and no path that is copied.
        fits = max(map(len, text.plain.split()), default=0) < self._console.width
        self._console.print(text, soft_wrap=self._live is None or not fits)


def scaling_table(points: Sequence[Point]) -> RenderableType:
    """Return a table for each workload, device and variant of how training speeds up over workers."""
    groups: dict[str, list[Point]] = {}
    for one in points:
        groups.setdefault(f"training together: {one.workload}, {one.device} {one.variant}", []).append(one)
    parts: list[RenderableType] = []
    for name, group in groups.items():
        # The name has a line of its own: beside seven columns it would be cut to nothing.
        parts += [Text(name, style="bold"), _one_scaling_table(group)]
    return Group(*parts)


def _one_scaling_table(points: Sequence[Point]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("workers", "samples/s", "efficiency", "interval", "ms/step", "exchange ms", "sent MB/s"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in points:
        share = one.efficiency
        table.add_row(
            str(one.workers),
            f"{one.throughput.median:,.0f}",
            "-" if share is None else f"{100 * share.median:.0f} %",
            "-" if share is None or share.n < 2 else f"{100 * share.low:.0f} to {100 * share.high:.0f} %",
            three_digits(one.step_time.median * 1e3),
            "-" if one.exchange_s is None else f"{one.exchange_s * 1e3:.3g}",
            "-" if one.sent_bytes_per_s is None else f"{one.sent_bytes_per_s / 1e6:.3g}",
        )
    return table


def _widths(names: Sequence[str], width: int, *, kinds: bool) -> dict[str, int]:
    """Return column -> characters: what is long gives way, first the kind, then what a node does now."""
    found = {"": 0, "state": 8, "trials": 9, "time": 7}
    left = width - sum(found.values()) - _GAP * len(found)
    found[""] = max(_LEAST, min(max(map(len, names)), left if left < _WORTH else left // 2))
    left -= found[""]
    if left >= _WORTH:
        kind = left // 2 if kinds and left >= 2 * _WORTH else 0
        found["now"] = left - kind - (2 * _GAP if kind else _GAP)
        if kind:
            found["kind"] = kind
    return found


def _natural(name: str) -> list[tuple[int, str]]:
    """Return what sorts "node-10" after "node-9"."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)]


def _count(heartbeat: Heartbeat | None) -> str:
    if heartbeat is None or heartbeat.label != "Trials" or not heartbeat.total:
        return "-"
    return f"{round(heartbeat.done, 1):g}/{heartbeat.total:.0f}"


def _time(row: _Row, now_s: float) -> str:
    if row.began_s is None and not row.spent_s:
        return "-"
    at_work_s = row.spent_s + (0.0 if row.began_s is None else now_s - row.began_s)
    minutes, seconds = divmod(int(at_work_s), 60)
    return f"{minutes}:{seconds:02d}"


def _now(row: _Row) -> str:
    if row.state is not State.RUNNING or row.heartbeat is None:
        return ""
    return (
        row.heartbeat.note
        if row.heartbeat.label == "Trials"
        else f"{row.heartbeat.label} {row.heartbeat.note}".strip()
    )
