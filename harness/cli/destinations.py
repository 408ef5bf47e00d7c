"""What --out means: the folder that a command makes runs or pages in, or one file that is named whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError

PRINTED = "-"
# Endings that name a file and no folder, whether or not a command writes that format.
_FILES = frozenset({
    "csv", "gz", "htm", "html", "json", "jsonl", "log", "md", "pdf", "png", "svg", "tar", "txt", "xlsx",
    "zip",
})  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where a command's pages go.

    Attributes:
        formats: those to write, each once.
        file: the one file that --out named; None where it is a folder, or nothing was named.
    """

    formats: tuple[str, ...]
    file: Path | None


def destination(formats: str | None, out: Path | None, known: Sequence[str], default: str) -> Destination:
    """Read --format and --out together: a path like x.html is one file, and says its format.

    Args:
        formats: a comma-separated list; None where none was asked for.
        out: None where none was asked for.
        known: the formats that the command writes; each is also how its files end.
        default: the list that stands for None.

    Raises:
        UsageError: a format does not exist, none is named, or the path and the formats do not agree.
    """
    named = _ending(out)
    wanted = formats_named(default if formats is None else formats, known)
    if out is None or out.is_dir() or not (named or out.is_file()):
        return Destination(formats=wanted, file=None)
    if named not in known:
        what = f"ends in .{named}" if named else "is a file"
        raise UsageError(
            f"--out {out} {what}, which is none of the formats written here.",
            hint=f"Name a folder, or a file that ends in {_listed(known)}.",
        )
    if formats is not None and wanted != (named,):
        raise UsageError(
            f"--out {out} is one file of the format {named}, and --format asks for {', '.join(wanted)}.",
            hint="Name a folder with --out, or leave --format out.",
        )
    return Destination(formats=(named,), file=out)


def formats_named(text: str, known: Sequence[str]) -> tuple[str, ...]:
    """Read a comma-separated list of formats.

    Raises:
        UsageError: one of them does not exist, or none is named.
    """
    wanted = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for one in wanted or (text,):
        if one not in known:
            raise UsageError(f"There is no format {one!r}.", hint=f"Choose from: {', '.join(known)}.")
    return wanted


def folder_of_runs(out: Path) -> Path:
    """Return the folder that run folders are made in.

    Raises:
        UsageError: it is a file, or is called like one.
    """
    if out.is_dir() or not (_ending(out) or out.is_file()):
        return out
    raise UsageError(
        f"--out {out} is a file, and runs are kept in a folder, each in one of its own.",
        hint="Name a folder as in --out runs; the report is in the run's folder, and "
        "`tfbench report runs --out x.html` writes it elsewhere.",
    )


def _ending(out: Path | None) -> str:
    ending = out.suffix.removeprefix(".").lower() if out is not None else ""
    return ending if ending in _FILES else ""


def _listed(known: Sequence[str]) -> str:
    *most, last = (f".{one}" for one in known)
    return f"{', '.join(most)} or {last}"
