"""Extracts as files: runs in brief that travel instead of the run, and those that ship with tfbench."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal

import msgspec

from harness.errors import StoreError, unknown
from harness.model.comparison import Extract
from harness.untrusted import parse_json

# What the file of an extract is called.
SUFFIX = ".extract.json"
_FOLDER = "references"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What the file of an extract holds."""

    schema: Literal["tfbench-extract"] = "tfbench-extract"
    schema_version: Literal[2] = 2
    extract: Extract


def from_json(text: str | bytes) -> Extract:
    """Return an extract from JSON.

    Raises:
        StoreError: it is none, or of another version.
    """
    try:
        return msgspec.convert(parse_json(text), Document).extract
    except ValueError as error:
        raise StoreError(
            f"Not an extract of this version: {error}.", hint="Make it again with this version of tfbench."
        ) from error


def references() -> tuple[str, ...]:
    """Return the names of the machines whose extracts ship with tfbench."""
    return tuple(sorted(path.name.removesuffix(SUFFIX) for path in _folder().glob(f"*{SUFFIX}")))


def reference_path(name: str) -> Path:
    """Return the file of a reference machine's extract.

    Raises:
        UsageError: there is none of this name.
    """
    if name not in references():
        raise unknown("reference machine", name, references())
    return _folder() / f"{name}{SUFFIX}"


def _folder() -> Path:
    return Path(str(resources.files("harness.run") / _FOLDER))
