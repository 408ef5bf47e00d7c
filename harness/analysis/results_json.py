"""Contents of results.json and comparison.json; unknown values are null, never 0 or NaN."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from harness.model.analysis import Analysis
from harness.model.comparison import Gate, Versus

RESULTS_VERSION = 2
COMPARISON_VERSION = 3
# Large arrays, which stay in the run folder.
_ARRAYS = ("telemetry", "steps", "requests")


def results_document(analysis: Analysis) -> dict[str, Any]:
    """Return an analysis as a JSON-serialisable document with the fields of harness.model.analysis."""
    bare = tuple(replace(each, telemetry={}) for each in analysis.summaries)
    plain = _plain(replace(analysis, summaries=bare))
    for summary, each in zip(plain["summaries"], analysis.summaries, strict=True):
        # JSON has no other names than text.
        summary["telemetry"] = {".".join(reading): value for reading, value in each.telemetry.items()}
    for trial in plain["run"]["trials"]:
        for name in _ARRAYS:
            del trial[name]
    return {"schema": "tfbench-results", "schema_version": RESULTS_VERSION, **plain}


def comparison_document(versus: Versus, gate: Gate | None = None) -> dict[str, Any]:
    """Return a comparison as a JSON-serialisable document with the fields of harness.model.comparison.

    A result's "run" and the "reference" are positions in "runs".
    """
    schema = {"schema": "tfbench-comparison", "schema_version": COMPARISON_VERSION}
    return {**schema, **_plain(versus), "gate": _plain(gate)}


def _plain(value: Any) -> Any:
    """Return a value as JSON types, with null for arrays, NaN and infinity."""
    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=lambda array: None))
