"""results.json: an analysis as plain values; what is not known is null, never 0 or NaN."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from harness.model.analysis import Analysis

RESULTS_VERSION = 2
# Arrays stay in the run folder: they are what makes it large.
_ARRAYS = ("telemetry", "steps", "requests")


def results_document(analysis: Analysis) -> dict[str, Any]:
    """Return the analysis as a JSON-serialisable document; the fields are those of harness.model.analysis."""
    plain = msgspec.to_builtins(analysis, str_keys=True, enc_hook=lambda value: None)
    for trial in plain["run"]["trials"]:
        for name in _ARRAYS:
            del trial[name]
    return {"schema": "tfbench-results", "schema_version": RESULTS_VERSION, **finite(plain)}


def finite(value: Any) -> Any:
    """Return plain values with null for numbers that are none."""
    if isinstance(value, dict):
        return {name: finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
