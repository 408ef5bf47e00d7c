"""One live view of all nodes: a line each in a terminal, a line for each change in a log."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
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
# The most that anyone reads.
MOST_ROWS = 40
_BAD = (State.FAILED, State.LOST, State.MISSING)
_STYLE = {
    State.WAITING: "dim",
    State.STARTING: "dim",
    State.RUNNING: "cyan",
    State.DONE: "green",
    **dict.fromkeys(_BAD, "bold red"),
}
# What is shown first where not all fits.
_ORDER = (State.RUNNING, *_BAD, State.STARTING, State.WAITING, State.DONE)


@dataclass(slots=True)
class _Row:
    state: State
    heartbeat: Heartbeat | None = None
    began_s: float | None = None
    spent_s: float = 0.0


class FleetView:
    """A dispatch.Board on standard error.

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
        # What is in lines already: a node whose machine is busy starts again and again.
        self._logged: set[tuple[str, State]] = set()
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
        row = self._rows.setdefault(task.folder, _Row(state=state))
        now = self._clock()
        if state is State.RUNNING and row.began_s is None:
            row.began_s = now
        elif state is not State.RUNNING and row.began_s is not None:
            row.spent_s, row.began_s = row.spent_s + now - row.began_s, None
        row.state, row.heartbeat = state, heartbeat or row.heartbeat
        if note:
            self._line(Text(note, style=_STYLE[state] if state in _BAD else ""))
        elif self._live is None and not self._quiet and state is not State.WAITING:
            if (task.folder, state) not in self._logged:
                self._line(Text(f"{task.folder}: {state.value}"))
            self._logged.add((task.folder, state))

    def line(self, text: str) -> None:
        """Print one line that stays."""
        if not self._quiet:
            self._line(Text(text))

    def table(self) -> RenderableType:
        """Return how far every node is."""
        if not self._rows:
            return Text("")
        rows = list(self._rows.items())
        most = max(1, min(MOST_ROWS, self._console.height - OTHER_LINES))
        if len(rows) > most:
            rows.sort(key=lambda item: _ORDER.index(item[1].state))
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        # Columns that do not wrap keep their widths; in the others the cells are cut.
        for name in ("", "state", "trials", "time", "now"):
            table.add_column(name, no_wrap=name not in ("", "now"))
        for name, row in rows[:most]:
            state = Text(row.state.value, style=_STYLE[row.state])
            table.add_row(_cut(name), state, _count(row.heartbeat), self._time(row), _cut(_now(row), "dim"))
        counts = Counter(row.state for row in self._rows.values())
        total = ", ".join(f"{counts[state]} {state.value}" for state in State if counts[state])
        hidden = f" ({len(rows) - most} not shown)" if len(rows) > most else ""
        return Group(table, Text(f"{total}{hidden}", no_wrap=True, overflow="ellipsis"))

    def _time(self, row: _Row) -> str:
        spent_s = row.spent_s + (0.0 if row.began_s is None else self._clock() - row.began_s)
        if row.began_s is None and not spent_s:
            return "-"
        minutes, seconds = divmod(int(spent_s), 60)
        return f"{minutes}:{seconds:02d}"

    def _line(self, text: Text) -> None:
        # A log keeps a sentence on one line; a screen breaks it between words, but never a path to copy.
        fits = max(map(len, text.plain.split()), default=0) < self._console.width
        self._console.print(text, soft_wrap=self._live is None or not fits)


def scaling_table(points: Sequence[Point]) -> RenderableType:
    """Return a table for each workload, device and variant of how training speeds up over workers."""
    parts: list[RenderableType] = []
    for (workload, device, variant), group in groupby(
        points, key=lambda point: (point.workload, point.device, point.variant)
    ):
        parts.append(Text(f"training together: {workload}, {device} {variant}", style="bold"))
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for name in ("workers", "samples/s", "efficiency", "interval", "ms/step", "exchange ms", "sent MB/s"):
            table.add_column(name, justify="right", no_wrap=True)
        for point in group:
            table.add_row(*_scaling_cells(point))
        parts.append(table)
    return Group(*parts)


def _scaling_cells(point: Point) -> tuple[str, ...]:
    share = point.efficiency
    return (
        str(point.workers),
        f"{point.throughput.median:,.0f}",
        "-" if share is None else f"{100 * share.median:.0f} %",
        "-" if share is None or share.n < 2 else f"{100 * share.low:.0f} to {100 * share.high:.0f} %",
        three_digits(point.step_time.median * 1e3),
        "-" if point.exchange_s is None else f"{point.exchange_s * 1e3:.3g}",
        "-" if point.sent_bytes_per_s is None else f"{point.sent_bytes_per_s / 1e6:.3g}",
    )


def _cut(text: str, style: str = "") -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _count(heartbeat: Heartbeat | None) -> str:
    if heartbeat is None or heartbeat.label != "Trials" or not heartbeat.total:
        return "-"
    return f"{round(heartbeat.done, 1):g}/{heartbeat.total:.0f}"


def _now(row: _Row) -> str:
    heartbeat = row.heartbeat
    if row.state is not State.RUNNING or heartbeat is None:
        return ""
    return heartbeat.note if heartbeat.label == "Trials" else f"{heartbeat.label} {heartbeat.note}".strip()
