"""Extracts as files: a run in brief, which travels instead of the run."""

from __future__ import annotations

from typing import Any

from harness.model.comparison import EXTRACT_VERSION, Extract
from harness.run.plain import from_plain, to_plain

_SCHEMA = "tfbench-extract"
# What the file of an extract that travels is called.
SUFFIX = ".extract.json"


def to_json(extract: Extract) -> dict[str, Any]:
    """Return an extract as plain values."""
    return {"schema": _SCHEMA, "schema_version": EXTRACT_VERSION, **to_plain(extract)}


def from_json(document: object) -> Extract | None:
    """Return an extract from plain values; None when they are none of this version."""
    if not isinstance(document, dict) or document.get("schema") != _SCHEMA:
        return None
    if document.get("schema_version") != EXTRACT_VERSION:
        return None
    fields = {name: value for name, value in document.items() if not name.startswith("schema")}
    try:
        return from_plain(fields, Extract)
    except ValueError:
        return None
