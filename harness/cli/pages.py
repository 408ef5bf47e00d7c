"""What commands that write pages over many runs share: formats, files, and what the terminal says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from harness.errors import UsageError
from harness.store import write_whole


def formats_of(text: str, known: Sequence[str], folder: str) -> tuple[str, ...]:
    """Read a comma-separated list of formats; only one can be printed.

    Raises:
        UsageError: one of them does not exist, none is named, or several are to be printed.
    """
    wanted = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    for one in wanted or (text,):
        if one not in known:
            raise UsageError(f"There is no format {one!r}.", hint=f"Choose from: {', '.join(known)}.")
    if folder == "-" and len(wanted) > 1:
        raise UsageError("Only one format can be printed.", hint="Name a folder with --out, or one format.")
    return wanted


def write(name: str, texts: Mapping[str, str], folder: Path) -> dict[str, Path]:
    """Write each format's text as folder/name.format and return where.

    Raises:
        StoreError: a file cannot be written.
    """
    return {one: write_whole(folder / f"{name}.{one}", text) for one, text in texts.items()}


def deliver(console: Console, name: str, texts: Mapping[str, str], folder: str) -> None:
    """Print the only text where `folder` is "-"; else write all, and print where they lie.

    Raises:
        StoreError: a file cannot be written.
    """
    if folder == "-":
        for text in texts.values():
            console.out(text, end="", highlight=False)
        return
    for one, written in write(name, texts, Path(folder)).items():
        console.print(f"{one}: {written.resolve()}", soft_wrap=True)


def show(console: Console, headline: str, warnings: Sequence[str]) -> None:
    """Print what a page says first."""
    console.print(Text(headline))
    for warning in warnings:
        console.print(Text.assemble(("Unlike things are compared: ", "yellow"), warning))


def split(values: Sequence[str] | None) -> tuple[str, ...]:
    """Split an option that may be given several times, each with several words."""
    return tuple(part for value in values or () for part in value.replace(",", " ").split())
