"""A comparison as plain values: comparison.json, and what the pages carry.

harness/schemas/comparison.schema.json describes it; within a schema version fields are only added.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from importlib import resources
from typing import Any

from harness.model.comparison import Gate, Versus

COMPARISON_VERSION = 1


def comparison_document(versus: Versus, gate: Gate | None = None) -> dict[str, Any]:
    """Return a comparison as plain values; what is not known is null, never 0 or NaN.

    A ratio's "run" and the "reference" are positions in "runs".
    """
    return {
        "schema": "tfbench-comparison",
        "schema_version": COMPARISON_VERSION,
        **plain(versus),
        "gate": plain(gate),
    }


def comparison_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of a comparison's document."""
    path = resources.files("harness") / "schemas" / "comparison.schema.json"
    schema: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return schema


def plain(value: Any) -> Any:
    """Reduce a value to what JSON has, in one walk over hundreds of runs: asdict would copy each of them."""
    if is_dataclass(value):
        return {one.name: plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
