"""Resolve --format and --out, and write or print the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path

import typer

from harness.cli.console import Terminal, err, told
from harness.cli.shared_options import split
from harness.errors import UsageError, unknown
from harness.run.store import write_atomic
from harness.system.kept import keep

STDOUT = Path("-")


def output_paths(
    formats: str | None,
    target: Path | None,
    path_in: Callable[[Path | None, str], Path],
    files: Mapping[str, str],
    *,
    inputs: Sequence[Path],
    default: str = "html",
) -> Mapping[str, Path]:
    """Resolve --format and --out; return format -> file, STDOUT for standard output.

    Args:
        files: format -> file name of the command.
        path_in: returns the path of a format in a folder, or in the command's default folder for None.
        inputs: files that the command reads.
        default: formats if --format is not given.

    Raises:
        UsageError: unknown format, `target` does not match the format, or an input would be overwritten.
    """
    selected = split([default if formats is None else formats])
    for format_name in selected or (formats,):
        if format_name not in files:
            raise unknown("format", format_name or "", files)
    suffix = target.suffix.lower() if target else ""
    matching = [name for name, file in files.items() if Path(file).suffix == suffix] or list(files)
    if target == STDOUT or (target and suffix and len(matching) < len(files) and not target.is_dir()):
        if formats is None:
            selected = (matching[0],)
        if len(selected) > 1 or selected[0] not in matching:
            raise UsageError(
                f"--out {target} does not match --format {','.join(selected)}.",
                hint="Give a folder with --out, or a single format that matches the file.",
            )
        paths = {selected[0]: target}
    else:
        paths = {format_name: path_in(target, format_name) for format_name in selected}
    for path in paths.values():
        if path.resolve() in (source.resolve() for source in inputs):
            raise UsageError(
                f"The output would overwrite the input {path}.",
                hint="Choose another folder or file with --out, or another format.",
            )
    return paths


def write_outputs(renderers: Mapping[str, Callable[[], str]], paths: Mapping[str, Path]) -> None:
    """Render each format, write it to its path and print the path, or print the text for STDOUT.

    A format that fails does not affect the others.

    Raises:
        StoreError: a file cannot be written.
        Exception: the first error of a renderer, after the other formats.
    """
    errors: list[Exception] = []
    for format_name, path in paths.items():
        try:
            text = renderers[format_name]()
            if path == STDOUT:
                typer.echo(text, nl=False)
            else:
                told().print(f"{format_name}: {write_atomic(path, text).resolve()}", soft_wrap=True)
        except Exception as error:
            errors.append(error)
    if errors:
        raise errors[0]


def charts_code(cache: Path) -> str:
    """Return the charts' JavaScript, kept in the folder `cache` if possible."""
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
