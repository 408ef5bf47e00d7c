"""The summary of a run for the terminal, in about thirty lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from harness.analysis.extract import machine_name
from harness.model.analysis import Analysis, CaveatKind, Sweep
from reports import acceptance, causes, machine, messages, numbers
from reports.overview import Row, description, rows, verdict
from reports.speed_charts import sweep_table
from reports.text import device_name, devices_of, harmless
from workloads.variants import variant_name

SWEEP_ROWS = 24
_LEFT_ALIGNED = frozenset({"workload", "on", "best change", "limited by", "outcome"})


def summary(analysis: Analysis) -> RenderableType:
    """Return speeds, limits, the first fix and caveats."""
    overview, devices = rows(analysis), devices_of(analysis)
    title = " · ".join((machine_name(analysis.run.manifest), *description(analysis.run)))
    parts: list[RenderableType] = [Text(_plain(title), style="bold")]
    if overview:
        parts += ["", _table([_cells(row, devices[row.case.device]) for row in overview])]
    for sweep in analysis.sweeps:
        parts += _sweep(sweep)
    if lines := list(_lines(analysis, overview)):
        parts += ["", _pairs(lines)]
    return Group(*parts)


def _cells(row: Row, device: str) -> dict[str, str]:
    """Return the cells of a row of the overview by column."""
    return {
        "workload": row.case.workload,
        "on": device,
        "p99 within": numbers.duration(row.bound_s) if row.bound_s else "",
        "as written": f"{numbers.speed(row.baseline)} {numbers.spread(row.baseline)}".strip(),
        "on each": numbers.speed(row.each_gpu),
        "efficiency": numbers.percent(row.scaling.median if row.scaling else None),
        "CPU": numbers.speed(row.cpu),
        "GPU/CPU": numbers.quantity(row.over_cpu),
        "tuned": f"{numbers.speed(row.tuned)} {numbers.spread(row.tuned)}".strip()
        if row.best is None
        else "",
        "tuned efficiency": numbers.percent(row.tuned_scaling.median if row.tuned_scaling else None),
        "best change": f"{numbers.gain(row.best.gain)} {row.best.name}" if row.best else "",
        "limited by": row.serving or messages.limit(row.case.limit, row.step_time),
    }


# Characters of a name on one line.
_LONGEST_NAME = 30


def _table(cells: Sequence[Mapping[str, str]]) -> Table:
    """Return a table without empty columns."""
    columns = cells[0] if cells else ()
    names = [name for name in columns if any(row[name] not in ("", numbers.MISSING) for row in cells)]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in names:
        # The first column never wraps, unless its names are very long; others do in a narrow terminal.
        justify: JustifyMethod = "left" if name in _LEFT_ALIGNED else "right"
        longest = max(len(row[name]) for row in cells)
        first = name == names[0]
        table.add_column(
            name, justify=justify, overflow="fold", no_wrap=first and longest <= _LONGEST_NAME,
            max_width=_LONGEST_NAME if first else None,
        )  # fmt: skip
    for row in cells:
        table.add_row(*(Text(_plain(row[name])) for name in names))
    return table


def _plain(text: str) -> str:
    return harmless(text).replace("×", "x").replace("→", "to").replace(numbers.SPACE, " ")


def _lines(analysis: Analysis, overview: Sequence[Row]) -> Iterator[tuple[str, str]]:
    yield from _accepted(analysis)
    if sentence := verdict(analysis, overview):
        yield "Verdict", sentence
    for banner in messages.banners(analysis.run):
        yield "Note", banner
    if condition := machine.verdict(analysis)[0]:
        yield "Machine", condition.removeprefix("Machine: ")
    for name, text in machine.abilities(analysis):
        yield name, text
    if copies := machine.copies_line(analysis):
        yield "GPUs", copies
    for device, measured in machine.all_reduces(analysis).items():
        yield machine.checked_device(device), machine.all_reduce_line(measured)
    for endurance in analysis.endurance:
        yield f"Endurance {machine.checked_device(endurance.device)}", machine.sustained(endurance)
    for row in overview:
        number = row.published
        if number is not None:
            yield (
                "vs published",
                f"{row.name} {numbers.quantity(number.factor)} ({number.number.system}, {number.number.source})",
            )
    yield from _changes(overview)
    if overview or analysis.sweeps:
        yield "Trust", messages.trust(analysis)[0]
    if command := messages.repeat(analysis):
        yield "More readings", command
    # Failed trials have been told above.
    caveats = [each for each in analysis.caveats if each.kind is not CaveatKind.FAILED_TRIALS]
    for text, _ in messages.caveat_lines(caveats, notes=False):
        yield "Caveat", text


def _changes(overview: Sequence[Row]) -> Iterator[tuple[str, str]]:
    for row in overview:
        if advice := causes.advice(row.case.limit):
            yield "Advice", f"{row.name}: {advice}"


def _accepted(analysis: Analysis) -> Iterator[tuple[str, str]]:
    if analysis.acceptance:
        yield "Limits", acceptance.sentence(analysis.acceptance)
        yield from acceptance.summary(analysis.acceptance)


def _pairs(lines: Sequence[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, style="bold")
    table.add_column(overflow="fold")
    for name, text in lines:
        table.add_row(name, Text(_plain(text)))
    return table


def _sweep(sweep: Sweep) -> Iterator[RenderableType]:
    """Yield a table of a sweep's fastest points; the report has all of them."""
    table = sweep_table(sweep)
    name = f"{sweep.workload} on {device_name(sweep.device)}, {variant_name(sweep.variant)}"
    cells = [dict(zip(table.header, row, strict=True)) for row in table.rows]
    yield from ("", Text(_plain(name), style="bold"), _table(cells[:SWEEP_ROWS]))
    if cells[SWEEP_ROWS:]:
        yield f"... {len(cells) - SWEEP_ROWS} more points in the report"
