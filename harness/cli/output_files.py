"""Resolve --format and --out, and write or print the results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import typer

from harness.cli.console import out
from harness.cli.shared_options import split
from harness.errors import UsageError, unknown
from harness.paths import paths_here
from harness.run.store import write_atomic

FORMATS = ("html", "md", "json", "csv")
STDOUT = Path("-")


def output_paths(
    formats: str | None,
    target: Path | None,
    path_in: Callable[[Path | None, str], Path],
    *,
    inputs: Sequence[Path],
    default: str = "html",
) -> Mapping[str, Path]:
    """Resolve --format and --out; return format -> file, STDOUT for standard output.

    Args:
        path_in: returns the path of a format in a folder, or in the command's default folder for None.
        inputs: files that the command reads.
        default: formats if --format is not given.

    Raises:
        UsageError: unknown format, `target` does not match the format, or an input would be overwritten.
    """
    selected = split([default if formats is None else formats])
    for format_name in selected or (formats,):
        if format_name not in FORMATS:
            raise unknown("format", format_name or "", FORMATS)
    suffix = target.suffix[1:].lower() if target else ""
    if target == STDOUT or (target and suffix in FORMATS and not target.is_dir()):
        if formats is None:
            selected = (suffix or FORMATS[0],)
        if len(selected) > 1 or suffix not in ("", selected[0]):
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


def write_outputs(texts: Mapping[str, str], paths: Mapping[str, Path]) -> None:
    """Write each text to its path and print the path, or print the text for STDOUT.

    Raises:
        StoreError: a file cannot be written.
    """
    for format_name, path in paths.items():
        if path == STDOUT:
            typer.echo(texts[format_name], nl=False)
        else:
            out().print(f"{format_name}: {write_atomic(path, texts[format_name]).resolve()}", soft_wrap=True)


def charts_code() -> str:
    """Return the charts' JavaScript, cached on disk."""
    from reports import frame  # noqa: PLC0415 - kept off the start of commands

    return frame.charts_code(paths_here().cache / "charts")
