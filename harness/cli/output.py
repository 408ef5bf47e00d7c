"""What --format and --out mean together, and the writing of pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import typer

from harness.cli.console import out
from harness.cli.shared_options import split
from harness.errors import UsageError, unknown
from harness.paths import paths_here
from harness.run.store import write_whole

FORMATS = ("html", "md", "json", "csv")
PRINTED = Path("-")


def destinations(
    formats: str | None,
    target: Path | None,
    path_in: Callable[[Path | None, str], Path],
    *,
    inputs: Sequence[Path],
    usual: str = "html",
) -> Mapping[str, Path]:
    """Read --format and --out together; return format -> file, PRINTED for standard output.

    Args:
        path_in: where a format goes in a folder; in a command's own where there is none.
        inputs: what the command reads.
        usual: the formats where none is named.

    Raises:
        UsageError: a format does not exist, `target` is a file of another one, or an input would be overwritten.
    """
    wanted = split([usual if formats is None else formats])
    for form in wanted or (formats,):
        if form not in FORMATS:
            raise unknown("format", form or "", FORMATS)
    ending = target.suffix[1:].lower() if target else ""
    if target == PRINTED or (target and ending in FORMATS and not target.is_dir()):
        if formats is None:
            wanted = (ending or FORMATS[0],)
        if len(wanted) > 1 or ending not in ("", wanted[0]):
            raise UsageError(
                f"--out {target} takes one format, but --format asks for {', '.join(wanted)}.",
                hint="Name a folder with --out, or one format that fits.",
            )
        paths = {wanted[0]: target}
    else:
        paths = {form: path_in(target, form) for form in wanted}
    for path in paths.values():
        if path.resolve() in (each.resolve() for each in inputs):
            raise UsageError(
                f"{path} would be overwritten by what is made of it.",
                hint="Choose another folder or file with --out, or another format.",
            )
    return paths


def deliver(texts: Mapping[str, str], paths: Mapping[str, Path]) -> None:
    """Write each format's text to its path and print the path; or print the text.

    Raises:
        StoreError: a file cannot be written.
    """
    for form, path in paths.items():
        if path == PRINTED:
            typer.echo(texts[form], nl=False)
        else:
            out().print(f"{form}: {write_whole(path, texts[form]).resolve()}", soft_wrap=True)


def charts_code() -> str:
    """Return the charts' JavaScript, kept in the cache folder for the next page."""
    from reports import frame  # noqa: PLC0415 - kept off the start of commands

    return frame.charts_code(paths_here().cache / "charts")
