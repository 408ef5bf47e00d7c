"""What commands that write pages over many runs share: formats, files, and what the terminal says."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from harness.cli.app import charts_kept
from harness.cli.destinations import PRINTED, Destination, destination
from harness.errors import UsageError
from harness.rounding import counted
from harness.run.store import write_whole

if TYPE_CHECKING:
    from reports.bundle import Bundling

# More lines than this would push the headline off the screen.
_NOTES = 8


def wanted_of(formats: str | None, out: str, known: Sequence[str]) -> Destination:
    """Read --format, by default HTML, and --out; "-" prints, and only one format can be printed.

    Raises:
        UsageError: as for `destination`, or several are to be printed.
    """
    found = destination(formats, None if out == PRINTED else Path(out), known, "html")
    if out == PRINTED and len(found.formats) > 1:
        raise UsageError("Only one format can be printed.", hint="Name a folder with --out, or one format.")
    return found


def write(name: str, texts: Mapping[str, str], folder: Path) -> dict[str, Path]:
    """Write each format's text as folder/name.format and return where.

    Raises:
        StoreError: a file cannot be written.
    """
    return {one: write_whole(folder / f"{name}.{one}", text) for one, text in texts.items()}


def deliver(console: Console, name: str, texts: Mapping[str, str], out: str, file: Path | None) -> None:
    """Print the only text where `out` is "-"; else write all, and print where they lie.

    Args:
        console: of standard output.
        name: what files in a folder are called, without their ending.
        texts: format -> text; a single one where there is a file.
        out: a folder, or "-".
        file: what to write instead; None for a folder.

    Raises:
        StoreError: a file cannot be written.
    """
    if out == PRINTED:
        for text in texts.values():
            console.out(text, end="", highlight=False)
        return
    if file is None:
        places = write(name, texts, Path(out))
    else:
        places = {one: write_whole(file, text) for one, text in texts.items()}
    for one, written in places.items():
        console.print(f"{one}: {written.resolve()}", soft_wrap=True)


def show(console: Console, headline: str, warnings: Sequence[str] = (), notes: Sequence[str] = ()) -> None:
    """Print what a page says first."""
    console.print(Text(headline))
    for warning in warnings:
        console.print(Text.assemble(("Warning: ", "yellow"), warning))
    for note in notes[:_NOTES]:
        console.print(Text.assemble(("Note: ", "yellow"), note))
    if len(notes) > _NOTES:
        console.print(f"{counted(len(notes) - _NOTES, 'more note')} in comparison.json.")


def in_formats(
    formats: Sequence[str],
    document: Mapping[str, Any],
    *,
    html: Callable[[Bundling], str],
    markdown: Callable[[], str],
    table: Callable[[], str],
) -> dict[str, str]:
    """Return a page in each of some formats.

    Args:
        formats: of "html", "md", "csv" and "json".
        document: the page's numbers as plain values, which JSON is written of.
        html: writes the page with the charts' code that it is given.
        markdown, table: write it in Markdown and as CSV.
    """
    from reports.bundle import Bundling  # noqa: PLC0415 - kept off the start of commands

    texts: dict[str, str] = {}
    with Bundling(charts_kept()) if "html" in formats else nullcontext() as bundling:
        for one in formats:
            match one:
                case "html":
                    assert bundling is not None
                    texts[one] = html(bundling)
                case "md":
                    texts[one] = markdown()
                case "csv":
                    texts[one] = table()
                case _:
                    texts[one] = json.dumps(document, indent=1) + "\n"
    return texts
