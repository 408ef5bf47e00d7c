"""comparison.json: a comparison as plain values; what is not known is null, never 0 or NaN."""

from __future__ import annotations

from typing import Any

import msgspec

from harness.analysis.results import finite
from harness.model.comparison import Gate, Versus

COMPARISON_VERSION = 2


def comparison_document(versus: Versus, gate: Gate | None = None) -> dict[str, Any]:
    """Return a comparison as a JSON-serialisable document; the fields are those of harness.model.comparison.

    A result's "run" and the "reference" are positions in "runs".
    """
    plain = finite(msgspec.to_builtins({"comparison": versus, "gate": gate}, str_keys=True))
    return {
        "schema": "tfbench-comparison",
        "schema_version": COMPARISON_VERSION,
        **plain["comparison"],
        "gate": plain["gate"],
    }
