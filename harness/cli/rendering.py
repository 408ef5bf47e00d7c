"""Read runs, render them in the formats asked for, and write or print the results."""

from __future__ import annotations

import json
import os
import re
import resource
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path

import typer

from harness.cli.console import Terminal, err, show_path
from harness.errors import (
    MissedError,
    StoreError,
    TfbenchError,
    UndecidedError,
    UsageError,
    check_names,
    on_disk,
)
from harness.model.analysis import Analysis, Limit, LimitOutcome
from harness.model.comparison import Extract, Gate, KnownMachine, Versus
from harness.model.run import Prices
from harness.options import split
from harness.paths import paths_here
from harness.progress import Progress
from harness.run.machines import added_machines, machine_json, shipped_machines
from harness.run.recording import EXTRACT_SUFFIX, open_recording, pack_for_page, read_extract_file
from harness.run.resolve import read_prices
from harness.run.store import RunFolder, is_recorded, newest_run, write_atomic
from harness.system.shared_files import keep
from harness.untrusted import printable, read_file

STDOUT = Path("-")
# V8 reserves 64 GiB of addresses and aborts without them.
CHARTS_BYTES = 66 << 30
# By these a page, a text and a file of test results are known to be of tfbench.
_MARKS = (
    '<meta name="generator" content="tfbench',
    "<!-- written by tfbench -->",
    '<testsuite name="tfbench',
)
# Names in the formats for other programs, which have no entries for a run without speeds.
_OF_ENTRIES = {
    "name", "unit", "value", "range", "extra", "throughput", "latency", "energy", "lower_value", "upper_value",
}  # fmt: skip
# Half of so many names in common are enough to know a table or a JSON document of tfbench.
_MOST_NAMES = 16
# Format -> file name.
REPORT_FILES: Mapping[str, str] = {
    "html": "report.html",
    "md": "report.md",
    "json": "results.json",
    "csv": "summary.csv",
    "github": "github-benchmark.json",
    "bencher": "bencher.json",
    "openmetrics": "metrics.prom",
    "mlperf": "mlperf-system.json",
    "junit": "acceptance.xml",
    "machine": "own.machine.json",
}
COMPARISON_FILES: Mapping[str, str] = {
    "html": "comparison.html",
    "md": "comparison.md",
    "json": "comparison.json",
    "csv": "comparison.csv",
    "junit": "comparison.xml",
}


def output_paths(
    formats: str | None,
    target: Path | None,
    folder: Path,
    files: Mapping[str, str],
    *,
    inputs: Sequence[Path],
    default: str = "html",
) -> Mapping[str, Path]:
    """Resolve --format and --out; return format -> file, STDOUT for standard output.

    Args:
        folder: where to write without `target`.
        files: format -> file name.
        inputs: files that the command reads.
        default: formats if --format is not given.

    Raises:
        UsageError: unknown format, `target` does not match the format, or an input would be overwritten.
    """
    selected = split([default if formats is None else formats])
    if not selected:
        raise UsageError("--format is empty.", hint=f"Choose from: {', '.join(files)}.")
    check_names("format", selected, files)
    if str(target) in ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"):
        target = STDOUT
    with on_disk(target or folder):  # the parent of a path may be closed
        (target or folder).exists()
    suffix = target.suffix.lower() if target else ""
    matching = [name for name, file in files.items() if Path(file).suffix == suffix] or list(files)
    if target and suffix[1:].isalpha() and len(matching) == len(files) and not target.is_dir():
        raise UsageError(
            f"--out {target}: no format has files with {suffix}.",
            hint=f"End its name with {', '.join(sorted({Path(file).suffix for file in files.values()}))}; a folder of "
            "this name has to exist.",
        )
    stream = target is not None and (target == STDOUT or _is_stream(target))
    if target and (stream or (suffix and len(matching) < len(files) and not target.is_dir())):
        if formats is None:
            selected = (matching[0],)
        if len(selected) > 1 or selected[0] not in matching:
            raise UsageError(
                f"--out {target} does not match --format {','.join(selected)}.",
                hint="Give a folder with --out, or a single format that matches the file.",
            )
        paths = {selected[0]: target}
    else:
        paths = {format_name: (target or folder) / files[format_name] for format_name in selected}
    read = {*map(os.path.realpath, inputs)}
    if formats is None and not target:  # of a page, its other formats
        paths = {name: path for name, path in paths.items() if os.path.realpath(path) not in read} or paths
    for path in paths.values():
        if is_recorded(path) or os.path.realpath(path) in read:
            raise UsageError(
                f"The output would overwrite {path}, which is an input or part of a run.",
                hint="Choose another folder or file with --out, or another format.",
            )
    return paths


def _is_stream(path: Path) -> bool:
    """Return whether a path is that of a pipe, a device or an open file, which a file must not replace."""
    special = path.absolute().parts[1:2] in (("dev",), ("proc",)) or not path.is_file()
    return special and path.exists() and not path.is_dir()


def write_outputs(
    renderers: Mapping[str, Callable[[], str]], paths: Mapping[str, Path], target: Path | None = None
) -> None:
    """Render each format, write it to its path and print the path, or print the text for STDOUT.

    A format that fails does not affect the others.

    Args:
        target: the user's --out. A pipe or a device elsewhere, such as in the folder of a run of others, is replaced.

    Raises:
        StoreError: a file cannot be written.
        UsageError: a file whose name the user did not give is there, and does not look like one of tfbench.
        Exception: the first error of a renderer, after the other formats.
    """
    errors: list[Exception] = []
    for format_name, path in paths.items():
        try:
            with _plausible():
                text = renderers[format_name]()
            if path == STDOUT:
                if sys.__stdout__ is None:
                    raise StoreError("Standard output is closed.", hint="Give the path of a file with --out.")
                # A pipe that does not wait for its reader would get a part.
                with suppress(OSError, ValueError):
                    os.set_blocking(sys.__stdout__.fileno(), True)
                typer.echo(text, nl=False)
            elif path == target and _is_stream(path):
                with on_disk(path), path.open("w", encoding="utf-8", errors="replace") as file:
                    file.write(text)
            elif path != target and _is_of_others(path, text):
                raise UsageError(
                    f"{path} is there already, and tfbench did not write it, or somebody may have edited it.",
                    hint=f"Name a file with --out, also {path.name} itself to replace it.",
                )
            else:
                show_path(format_name, write_atomic(path, text).resolve())
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]


@contextmanager
def _plausible() -> Iterator[None]:
    """Refuse a run whose numbers cannot be computed with.

    Raises:
        StoreError: a result is not finite.
    """
    try:
        yield
    except ArithmeticError as error:
        raise StoreError(
            f"The run has numbers that no measurement gives ({error}).",
            hint="Measure again, or use another copy.",
        ) from error


def _is_of_others(path: Path, text: str) -> bool:
    """Return whether a file outside of runs is there that does not have the form of `text`, or that people edit."""
    if not path.is_file() or RunFolder(path.parent).exists():
        return False
    content = read_file(path).decode("utf-8", "replace")
    if path.suffix == ".toml":  # limits
        return content != text
    there, own = _form(content), _form(text)
    if content.strip() in ("{}", "[]") or not own:
        return not there <= _OF_ENTRIES
    # A table has columns for what a run has only.
    return len(there & own) * 2 < min(len(own), _MOST_NAMES)


def _form(text: str) -> set[str]:
    """Return what texts of a format have in common: a mark, the schema or the names of JSON, or their first line."""
    marks = [mark for mark in _MARKS if mark in text]
    if marks:
        return {marks[0]}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {*re.findall(r"[A-Za-z_]{3,}", text.partition("\n")[0])}
    schema = value.get("schema") if isinstance(value, dict) else None
    return {schema} if isinstance(schema, str) else {*_names_in(value)}


def _names_in(value: object, depth: int = 3) -> Iterator[str]:
    """Yield the names in a JSON document that are not those of a measurement."""
    for name, inner in value.items() if isinstance(value, dict) else ():
        if "/" not in name:
            yield name
        yield from _names_in(inner, depth - 1) if depth else ()
    for inner in value if isinstance(value, list) else ():
        yield from _names_in(inner, depth - 1) if depth else ()


def charts_code(cache: Path) -> str:
    """Return the charts' JavaScript, kept in the folder `cache` if possible.

    Raises:
        TfbenchError: V8, which draws charts, would end this process.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY and limit < CHARTS_BYTES:
        raise TfbenchError(
            f"Charts cannot be drawn, so there is no page: they reserve {CHARTS_BYTES >> 30} GiB of address space, and "
            f"{limit >> 30} GiB are allowed.",
            hint="Run `ulimit -v unlimited` first, or choose another --format than html.",
        )
    from reports import frame  # noqa: PLC0415 - kept off the start of commands

    folder, name = cache / version("vl-convert-python"), "vega.js"

    def write(target: Path) -> str:
        (target / name).write_text(frame.charts_code(), encoding="utf-8")
        return ""

    try:
        keep(folder, write, Terminal(err()))
        return (folder / name).read_text(encoding="utf-8")
    except OSError:
        return frame.charts_code()


@dataclass(frozen=True, slots=True, kw_only=True)
class Standards:
    """What a run is held against: known machines besides those that ship with tfbench, and limits."""

    machines: tuple[KnownMachine, ...] = ()
    limits: tuple[Limit, ...] = ()


NO_STANDARDS = Standards()


def read_standards(references: Sequence[Path] | None, accept: Path | None) -> Standards:
    """Read files of known machines and of limits.

    Raises:
        StoreError, UsageError: one cannot be read or is not valid.
    """
    added = added_machines(references or ())
    if accept is None:
        return Standards(machines=added)
    # Imported late, because it brings in the analysis.
    from harness.run.limits import read_limits  # noqa: PLC0415

    return Standards(machines=added, limits=read_limits(accept, (*shipped_machines(), *added)))


def read_analysis(
    path: Path, prices: Prices | None, standards: Standards = NO_STANDARDS
) -> tuple[Analysis, bool]:
    """Read a run folder or report file; return its analysis, and whether the analysed run is complete.

    Prices replace those stored in the run.

    Raises:
        StoreError: not a run folder or report file.
    """
    # Imported late, so that the imports do not delay the first training step.
    from harness.analysis import analyse, judged, priced  # noqa: PLC0415
    from harness.analysis.known import known_machine  # noqa: PLC0415
    from harness.run.limits import check_workloads  # noqa: PLC0415

    recorded, embedded = open_recording(path)
    if prices is not None:
        recorded = replace(recorded, manifest=replace(recorded.manifest, prices=prices))
    check_workloads(standards.limits, recorded.planned)
    with _plausible():
        analysis = priced(embedded, recorded) if embedded else analyse(recorded)
    kinds = {device.kind for device in known_machine(analysis).devices.values()}
    machines = (*shipped_machines(kinds), *standards.machines)
    return judged(analysis, machines, standards.limits), embedded is None


def without_effect(analysis: Analysis, standards: Standards) -> str:
    """Return why the files of --reference say nothing about a run; "" if they do, or there are none."""
    from harness.analysis.capabilities import kind_of  # noqa: PLC0415
    from harness.analysis.known import others  # noqa: PLC0415

    kinds = {device.kind for machine in standards.machines for device in machine.devices.values()}
    if not kinds or kinds & {standing.kind for standing in analysis.standings}:
        return ""
    devices = {planned.device for planned in analysis.run.planned}
    if kinds & {kind_of(analysis.run.manifest, device) for device in devices}:
        if not others(analysis, standards.machines):
            return "--reference has no effect: it is this run's own file."
        return "--reference has no effect: this run has measured none of its quantities."
    return f"--reference has no effect: its devices are {', '.join(sorted(kinds))}, and this run has none of them."


def report_renderers(
    run: Path, price: str = "", standards: Standards = NO_STANDARDS
) -> tuple[Analysis, Mapping[str, Callable[[], str]]]:
    """Read a run folder or report file; return its analysis, and functions that render each format.

    Raises:
        StoreError: not a run folder or report file.
        UsageError: the price is not valid, or for no device of the run.
    """
    from harness.analysis.known import known_machine  # noqa: PLC0415
    from reports import exports  # noqa: PLC0415
    from reports.page import render_html, render_markdown  # noqa: PLC0415

    prices = read_prices(price)
    analysis, whole = read_analysis(run, prices, standards)
    rented = any(each.cost and each.cost.per_hour is not None for _, _, each in analysis.variants)
    if prices and prices.electricity_per_kwh is None and analysis.cases and not rented:
        raise UsageError(
            f"--price {price} is for no device of the run.",
            hint=f"It used {', '.join(sorted({case.device for case in analysis.cases}))}; see docs/cost.md.",
        )

    def html() -> str:
        record, shown = pack_for_page(analysis, whole=whole)
        return render_html(shown, record=record, code=charts_code(paths_here().cache / "charts"))

    return analysis, {
        "html": html,
        "md": lambda: render_markdown(analysis),
        "csv": lambda: exports.render_csv(analysis),
        "json": lambda: json.dumps(exports.results_document(analysis), indent=1) + "\n",
        "github": lambda: exports.render_github(analysis),
        "bencher": lambda: exports.render_bencher(analysis),
        "openmetrics": lambda: exports.render_openmetrics(analysis),
        "mlperf": lambda: exports.render_mlperf(analysis),
        "junit": lambda: exports.render_acceptance(analysis),
        "machine": lambda: machine_json(known_machine(analysis)),
    }


def raise_for_limits(analysis: Analysis) -> None:
    """Raise MissedError if a limit is missed, or UndecidedError if one is undecided or not measured."""
    from reports.acceptance import sentence  # noqa: PLC0415

    outcomes = {each.outcome for each in analysis.acceptance}
    if LimitOutcome.MISSED in outcomes:
        raise MissedError(
            f"The machine is not accepted. {sentence(analysis.acceptance)}",
            hint="The section Acceptance of the report says what to do about each.",
        )
    if outcomes - {LimitOutcome.MET}:
        raise UndecidedError(
            f"Not every limit is decided. {sentence(analysis.acceptance)}",
            hint="Repeat with more --trials; the section Acceptance of the report says how many."
            if LimitOutcome.UNDECIDED in outcomes
            else "Measure what is missing: docs/limits.md says what a run needs for each number.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRun:
    """A run's path and display name; the label is "" to use the run's own."""

    path: Path
    label: str = ""


def read_extracts(runs: Sequence[NamedRun], progress: Progress, *, price: str = "") -> tuple[Extract, ...]:
    """Return an extract of each run folder, report file or extract, in order.

    Raises:
        StoreError: a run cannot be read.
    """
    prices, result = read_prices(price), []
    with progress.task("Reading runs", float(len(runs))) as task:
        for run in runs:
            result.append(_read_extract(run, prices))
            task.advance(1)
    return tuple(result)


def comparison_renderers(comparison: Versus, gate: Gate | None = None) -> Mapping[str, Callable[[], str]]:
    """Return functions that render a comparison in each format."""
    from harness.analysis.versus import gate as check  # noqa: PLC0415
    from reports.compare_page import render_html, render_markdown  # noqa: PLC0415
    from reports.exports import comparison_csv, comparison_document, render_junit  # noqa: PLC0415

    return {
        "html": lambda: render_html(comparison, gate=gate, code=charts_code(paths_here().cache / "charts")),
        "md": lambda: render_markdown(comparison, gate=gate),
        "csv": lambda: comparison_csv(comparison),
        "json": lambda: json.dumps(comparison_document(comparison, gate), indent=1) + "\n",
        "junit": lambda: render_junit(comparison, gate or check(comparison)),
    }


def _read_extract(run: NamedRun, prices: Prices | None) -> Extract:
    from harness.analysis.extract import extract  # noqa: PLC0415 - kept off the start of the command

    if run.path.name.endswith(EXTRACT_SUFFIX):
        extracted = read_extract_file(read_file(run.path))
    else:
        extracted = extract(read_analysis(newest_run(run.path), prices)[0])
    return replace(extracted, source=printable(str(run.path)), label=run.label or extracted.label)
