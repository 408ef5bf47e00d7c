"""Where pages go: what --format and --out mean together, and the writing of files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import typer

from harness.cli.app import paths
from harness.cli.console import out
from harness.errors import UsageError
from harness.run.store import write_whole

FORMATS = ("html", "md", "json", "csv")
PRINTED = Path("-")
# Endings that name a file and no folder; tfbench writes the first ones.
_FILES = (*FORMATS, "pdf", "png", "txt", "zip")


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where a command's pages go: into one `file`, else into `folder`; both None for the default folder."""

    formats: tuple[str, ...]
    folder: Path | None = None
    file: Path | None = None

    @property
    def printed(self) -> bool:
        """Whether the one page goes to standard output."""
        return self.file == PRINTED


def destination(formats: str | None, target: Path | None, default: str = "html") -> Destination:
    """Read --format and --out together: a path like x.html is one file, and says its format.

    Raises:
        UsageError: a format does not exist, or the path and the formats do not agree.
    """
    wanted = _formats_named(default if formats is None else formats)
    if target is None or target.is_dir():
        return Destination(formats=wanted, folder=target)
    if target == PRINTED:
        wanted = wanted if formats else FORMATS[:1]
        if len(wanted) > 1:
            raise UsageError("Only one format can be printed.", hint="Name one format, or a folder.")
        return Destination(formats=wanted, file=PRINTED)
    ending = _ending(target)
    if not ending and not target.is_file():
        return Destination(formats=wanted, folder=target)
    if ending not in FORMATS:
        what = f"ends in .{ending}" if ending else "is a file"
        raise UsageError(
            f"--out {target} {what}, which is not a format that tfbench writes.",
            hint=f"Name a folder, or a file that ends in .{', .'.join(FORMATS)}.",
        )
    if formats is not None and wanted != (ending,):
        raise UsageError(
            f"--out {target} is one {ending} file, but --format asks for {', '.join(wanted)}.",
            hint="Name a folder with --out, or leave --format out.",
        )
    return Destination(formats=(ending,), file=target)


def folder_of_runs(folder: Path) -> Path:
    """Return the folder that run folders are made in.

    Raises:
        UsageError: it is a file, or is called like one.
    """
    if folder.is_dir() or not (_ending(folder) or folder.is_file()):
        return folder
    raise UsageError(
        f"--out {folder} is a file, but runs need a folder.",
        hint="Name a folder, e.g. --out runs. `tfbench report runs --out x.html` writes the report elsewhere.",
    )


def deliver(texts: Mapping[str, str], to: Destination, path_of: Callable[[str], Path]) -> None:
    """Print the only text, or write all and print their paths.

    Args:
        texts: format -> text; a single one where `to` is a file.
        path_of: the path of a format where `to` is a folder.

    Raises:
        StoreError: a file cannot be written.
    """
    for form, text in texts.items():
        if to.printed:
            typer.echo(text, nl=False)
        else:
            written = write_whole(to.file or path_of(form), text)
            out().print(f"{form}: {written.resolve()}", soft_wrap=True)


def charts_code() -> str:
    """Return the charts' JavaScript, kept in the cache folder for the next page."""
    from reports import frame  # noqa: PLC0415 - kept off the start of commands

    return frame.charts_code(paths().cache / "charts")


def _formats_named(text: str) -> tuple[str, ...]:
    wanted = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for form in wanted or (text,):
        if form not in FORMATS:
            raise UsageError(f"There is no format {form!r}.", hint=f"Choose from: {', '.join(FORMATS)}.")
    return wanted


def _ending(path: Path) -> str:
    ending = path.suffix.removeprefix(".").lower()
    return ending if ending in _FILES else ""
