"""Extract files: compact summaries of runs, and the reference machines that ship with tfbench."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from harness.errors import StoreError
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


def references() -> Mapping[str, Path]:
    """Return name -> extract file of the reference machines."""
    return {path.name.removesuffix(SUFFIX): path for path in sorted(_FOLDER.glob(f"*{SUFFIX}"))}
