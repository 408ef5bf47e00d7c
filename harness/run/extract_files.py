"""Extract files: compact summaries of runs, and the reference machines that ship with tfbench."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from harness.errors import StoreError, unknown
from harness.model.comparison import Extract
from harness.untrusted import parse_json

# File name suffix of extracts.
SUFFIX = ".extract.json"
_FOLDER = Path(__file__).with_name("references")


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """Content of an extract file."""

    schema: Literal["tfbench-extract"] = "tfbench-extract"
    schema_version: Literal[2] = 2
    extract: Extract


def from_json(text: str | bytes) -> Extract:
    """Return an extract from JSON.

    Raises:
        StoreError: not an extract of this version.
    """
    try:
        return msgspec.convert(parse_json(text), Document).extract
    except ValueError as error:
        raise StoreError(
            f"Not an extract of this version: {error}.", hint="Recreate it with this version of tfbench."
        ) from error


def references() -> tuple[str, ...]:
    """Return the names of the reference machines."""
    return tuple(sorted(path.name.removesuffix(SUFFIX) for path in _FOLDER.glob(f"*{SUFFIX}")))


def reference_path(name: str) -> Path:
    """Return the extract file of a reference machine.

    Raises:
        UsageError: unknown name.
    """
    if name not in references():
        raise unknown("reference machine", name, references())
    return _FOLDER / f"{name}{SUFFIX}"
