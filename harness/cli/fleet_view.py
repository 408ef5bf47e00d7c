"""One live view of all nodes: a line each in a terminal, a line for each change in a log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from harness.cli.console import is_screen
from harness.fleet.messages import Heartbeat, State
from harness.model.scaling import Point
from harness.rounding import three_digits

_STYLE = {State.WAITING: "dim", State.RUNNING: "cyan", State.DONE: "green", State.FAILED: "bold red"}


class FleetView:
    """A fleet.messages.Board on standard error.

    Args:
        console: where to.
        quiet: show nothing but sentences that stay.
    """

    def __init__(self, console: Console, *, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet
        self._rows: dict[str, tuple[State, Heartbeat]] = {}
        self._live = Live(get_renderable=self.table, console=console, refresh_per_second=4, transient=True)
        self._screen = is_screen(console) and not quiet

    def __enter__(self) -> FleetView:
        if self._screen:
            self._live.start()
        return self

    def __exit__(self, *what: object) -> None:
        self._live.stop()

    def show(self, name: str, state: State, *, heartbeat: Heartbeat | None = None, note: str = "") -> None:
        """Show the state of the run in folder `name`; `note` is a sentence that stays."""
        before, last = self._rows.get(name, (State.WAITING, Heartbeat(label="")))
        self._rows[name] = state, heartbeat or last
        if note:
            self._line(Text(note, style=_STYLE[state] if state is State.FAILED else ""))
        elif state not in (before, State.WAITING) and not (self._screen or self._quiet):
            self._line(Text(f"{name}: {state.value}"))

    def line(self, text: str) -> None:
        """Print one line that stays."""
        if not self._quiet:
            self._line(Text(text))

    def table(self) -> RenderableType:
        """Return how far every node is, their number in each state first; Live cuts what does not fit."""
        table = Table.grid(padding=(0, 2, 0, 0))
        # Columns that do not wrap keep their widths; in the others the cells are cut.
        for no_wrap in (False, True, True, False):
            table.add_column(no_wrap=no_wrap)
        for name, (state, heartbeat) in self._rows.items():
            trials = f"{round(heartbeat.done, 1):g}/{heartbeat.total:.0f}" if heartbeat.total else ""
            now = f"{heartbeat.label} {heartbeat.note}" if state is State.RUNNING else ""
            table.add_row(_cut(name), Text(state.value, style=_STYLE[state]), trials, _cut(now, "dim"))
        counts = Counter(state for state, _ in self._rows.values())
        return Group(", ".join(f"{counts[state]} {state.value}" for state in State if counts[state]), table)

    def _line(self, text: Text) -> None:
        # A log keeps a sentence on one line; a screen breaks it between words, but never a path to copy.
        fits = max(map(len, text.plain.split()), default=0) < self._console.width
        self._console.print(text, soft_wrap=not (self._screen and fits))


def _cut(text: str, style: str = "") -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def scaling_table(points: Sequence[Point]) -> RenderableType:
    """Return a table for each workload, device and variant of how training speeds up over workers."""
    parts: list[RenderableType] = []
    for (workload, device, variant), group in groupby(points, key=lambda point: point.key):
        parts.append(Text(f"training together: {workload}, {device} {variant}", style="bold"))
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for name in ("workers", "samples/s", "efficiency", "interval", "ms/step", "exchange ms", "sent MB/s"):
            table.add_column(name, justify="right", no_wrap=True)
        for point in group:
            table.add_row(*_scaling_cells(point))
        parts.append(table)
    return Group(*parts)


def _scaling_cells(point: Point) -> tuple[str, ...]:
    share, sent = point.efficiency, point.traffic[0].sent_bytes_per_s if point.traffic else None
    return (
        str(point.workers),
        f"{point.throughput.median:,.0f}",
        "-" if share is None else f"{100 * share.median:.0f} %",
        "-" if share is None or share.n < 2 else f"{100 * share.low:.0f} to {100 * share.high:.0f} %",
        three_digits(point.step_time.median * 1e3),
        "-" if point.exchange_s is None else f"{point.exchange_s * 1e3:.3g}",
        "-" if sent is None else f"{sent / 1e6:.3g}",
    )
