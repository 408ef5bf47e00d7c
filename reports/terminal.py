"""The report in twenty lines of a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from harness.analysis.facts import machine_name
from harness.model.analysis import Analysis, Severity, Sweep
from reports import messages, numbers
from reports.escaping import harmless
from reports.names import device_name, variant_name
from reports.overview import CPU, Row, expected_gain, first_fix, rows, speed_factor
from reports.sweep_chart import sweep_table

SWEEP_ROWS = 24


def summary(analysis: Analysis, *, took_s: float | None = None) -> RenderableType:
    """Return what the report says first: speeds, limits, the first fix, caveats."""
    parts: list[RenderableType] = [Text(_title(analysis, took_s), style="bold")]
    own = rows(analysis)
    if own:
        parts += ["", _speeds(own)]
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
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    has_gpu = any(row.device != CPU for row in own)
    where = "GPU" if has_gpu else "CPU"
    table.add_column("samples/s", no_wrap=True)
    for name in ("CPU", *(("GPU", "GPU/CPU") if has_gpu else ()), f"tuned {where}", "gain"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column(f"limited by ({where})" if has_gpu else "limited by")
    for row in own:
        limit = _plain(messages.limit(row.finding, row.step_time))
        table.add_row(Text(_plain(row.name)), *map(_plain, _cells(row, has_gpu=has_gpu)), Text(limit))
    return table


def _cells(row: Row, *, has_gpu: bool) -> Iterator[str]:
    base = row.baseline.throughput if row.baseline else None
    if has_gpu:
        on_gpu = row.device != CPU
        yield numbers.speed(row.cpu if on_gpu else base)
        yield numbers.speed(base if on_gpu else None)
        if row.scaling:
            yield f"scales {numbers.percent(row.scaling.median)}"
        else:
            yield numbers.factor(row.over_cpu.median) if row.over_cpu else numbers.MISSING
    else:
        yield numbers.speed(base)
    yield numbers.speed(row.tuned.throughput if row.tuned else None)
    yield numbers.factor(row.gain.median) if row.gain else numbers.MISSING


def _plain(text: str) -> str:
    return harmless(text).replace("×", "x").replace(numbers.SPACE, " ")


def _lines(analysis: Analysis, own: Sequence[Row]) -> Iterator[tuple[str, str]]:
    for banner in messages.banners(analysis.run):
        yield "Note", banner
    for row in own:
        number = speed_factor(row)
        if number is not None and number.factor is not None:
            factor = numbers.factor(number.factor.median)
            yield "vs published", f"{row.name} {factor} ({number.system}, {number.source})"
    fix = first_fix(analysis)
    if fix is not None:
        row, finding = fix
        how = "measured" if finding.remedy else "predicted"
        yield (
            "Fix first",
            f"{row.name}: {messages.fix(finding)} -> {numbers.factor(expected_gain(finding))} {how}",
        )
    if own or analysis.sweeps:
        yield "Trust", messages.trust(analysis)[0]
    warnings = [
        text for severity, text, _ in messages.caveat_lines(analysis.caveats) if severity is Severity.WARNING
    ]
    if warnings:
        yield (
            "Caveats",
            " ".join(warnings[:3]) + (f" (+{len(warnings) - 3} in the report)" if warnings[3:] else ""),
        )


def _pairs(lines: Sequence[tuple[str, str]]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column()
    seen = ""
    for name, text in lines:
        table.add_row("" if name == seen else name, Text(_plain(text)))
        seen = name
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
