"""The report in twenty lines of a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from harness.analysis.facts import machine_name
from harness.model.analysis import Analysis, Estimate, Summary, Sweep
from reports import messages, numbers
from reports.escaping import harmless
from reports.names import device_name, variant_name
from reports.overview import CPU, Row, first_fix, rows
from reports.sweep_chart import sweep_table

SWEEP_ROWS = 24


def summary(analysis: Analysis, *, took_s: float | None = None) -> RenderableType:
    """Return what the report says first: speeds, limits, the first fix, caveats."""
    parts: list[RenderableType] = [Text(_title(analysis, took_s), style="bold")]
    own = rows(analysis)
    for some, make in (
        ([row for row in own if not row.scaled], _speeds),
        ([row for row in own if row.scaled], _scaled),
    ):
        parts += ["", make(some)] if some else []
    parts += [_sweep(sweep) for sweep in analysis.sweeps]
    lines = list(_lines(analysis, own))
    if lines:
        parts += ["", _pairs(lines)]
    return Group(*parts)


def _title(analysis: Analysis, took_s: float | None) -> str:
    run = analysis.run
    words = (
        machine_name(run.manifest),
        run.system["framework"],
        run.manifest.engine.name,
        run.manifest.profile.name,
        numbers.duration(took_s) if took_s is not None else "",
    )
    return _plain(" · ".join(word for word in words if word))


def _speeds(own: Sequence[Row]) -> Table:
    """Return a table of workloads on their devices."""
    where = "GPU" if any(row.device != CPU for row in own) else "CPU"
    columns: list[tuple[str, Callable[[Row], str]]] = [
        ("CPU", lambda row: numbers.speed(row.cpu if row.device != CPU else _speed(row.baseline))),
        ("GPU", lambda row: numbers.speed(_speed(row.baseline if row.device != CPU else None))),
        ("GPU/CPU", lambda row: _factor(row.over_cpu)),
        (f"tuned {where}", lambda row: numbers.speed(_speed(row.tuned))),
        ("gain", lambda row: _factor(row.gain)),
    ]
    return _table(own, columns if where == "GPU" else [columns[0], *columns[3:]], f"limited by ({where})")


def _scaled(own: Sequence[Row]) -> Table:
    """Return a table of one GPU beside several."""
    columns: list[tuple[str, Callable[[Row], str]]] = [
        ("baseline", lambda row: numbers.speed(_speed(row.baseline))),
        ("efficiency", lambda row: _share(row.scaling)),
        ("tuned", lambda row: numbers.speed(_speed(row.tuned))),
        ("efficiency", lambda row: _share(row.tuned_scaling)),
    ]
    return _table(own, columns if any(row.baseline for row in own) else columns[2:], "limited by")


def _table(own: Sequence[Row], columns: Sequence[tuple[str, Callable[[Row], str]]], limit: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("samples/s", no_wrap=True)
    for name, _ in columns:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column(limit)
    for row in own:
        limited = messages.limit(row.finding, row.step_time)
        cells = (row.name, *(cell(row) for _, cell in columns), limited)
        table.add_row(*(Text(_plain(cell)) for cell in cells))
    return table


def _speed(summary: Summary | None) -> Estimate | None:
    return summary.throughput if summary else None


def _factor(value: Estimate | None) -> str:
    return numbers.factor(value.median) if value else numbers.MISSING


def _share(value: Estimate | None) -> str:
    return numbers.percent(value.median if value else None)


def _plain(text: str) -> str:
    return harmless(text).replace("×", "x").replace(numbers.SPACE, " ")


def _lines(analysis: Analysis, own: Sequence[Row]) -> Iterator[tuple[str, str]]:
    for banner in messages.banners(analysis.run):
        yield "Note", banner
    for row in own:
        number = row.published
        if number is not None:
            yield (
                "vs published",
                f"{row.name} {_factor(number.factor)} ({number.number.system}, {number.number.source})",
            )
    fix = first_fix(analysis)
    if fix is not None:
        row, finding = fix
        yield "Fix first", f"{row.name}: {messages.fix(finding)} -> {messages.expected(finding)}"
    if own or analysis.sweeps:
        yield "Trust", messages.trust(analysis)[0]
    warnings = [text for text, _ in messages.caveat_lines(analysis.caveats, notes=False)]
    if warnings:
        yield (
            "Caveats",
            " ".join(warnings[:3]) + (f" (+{len(warnings) - 3} in the report)" if warnings[3:] else ""),
        )


def _pairs(lines: Sequence[tuple[str, str]]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    shown = ""
    for name, text in lines:
        table.add_row("" if name == shown else name, Text(_plain(text)))
        shown = name
    return table


def _sweep(sweep: Sweep) -> Group:
    """Return a table of a sweep's points, the fastest first; long ones are left to the report."""
    made = sweep_table(sweep)
    table = Table(box=None, pad_edge=False)
    for name in made.header[:-1]:
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("")
    for row in made.rows[:SWEEP_ROWS]:
        table.add_row(*map(_plain, row))
    more = len(made.rows) - SWEEP_ROWS
    rest = (f"... {more} more points in the report",) if more > 0 else ()
    name = f"{sweep.workload} on {device_name(sweep.device)}, {variant_name(sweep.variant)}"
    return Group("", Text(_plain(name), style="bold"), table, *rest)
