"""results.json and comparison.json as plain values; what is not known is null, never 0 or NaN."""

from __future__ import annotations

from typing import Any

import msgspec

from harness.model.analysis import Analysis
from harness.model.comparison import Gate, Versus

RESULTS_VERSION = 2
COMPARISON_VERSION = 2
# Arrays stay in the run folder: they are what makes it large.
_ARRAYS = ("telemetry", "steps", "requests")


def results_document(analysis: Analysis) -> dict[str, Any]:
    """Return the analysis as a JSON-serialisable document; the fields are those of harness.model.analysis."""
    plain = _plain(analysis)
    for trial in plain["run"]["trials"]:
        for name in _ARRAYS:
            del trial[name]
    return {"schema": "tfbench-results", "schema_version": RESULTS_VERSION, **plain}


def comparison_document(versus: Versus, gate: Gate | None = None) -> dict[str, Any]:
    """Return a comparison as a JSON-serialisable document; the fields are those of harness.model.comparison.

    A result's "run" and the "reference" are positions in "runs".
    """
    schema = {"schema": "tfbench-comparison", "schema_version": COMPARISON_VERSION}
    return {**schema, **_plain(versus), "gate": _plain(gate)}


def _plain(value: Any) -> Any:
    """Return plain values, as JSON has them: null for numbers that are none."""
    return msgspec.json.decode(msgspec.json.encode(value, enc_hook=lambda array: None))
