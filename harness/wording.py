"""Format counts, lists, digests and sweep points for commands, tables and charts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from harness.model.run import Point, Scalar

_DIGEST = re.compile(r"(?:sha256:)?\b([0-9a-f]{12})[0-9a-f]{52}\b")


def counted(count: int, noun: str) -> str:
    """Format a count with its noun: "no runs", "1 run", "1,200 runs"."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun}s" if count else f"no {noun}s"


def some(labels: Sequence[str]) -> str:
    """List the first three and count the others: "a, b, c and 4 more"."""
    more = len(labels) - 3
    return ", ".join(labels[:3]) + (f" and {more} more" if more > 0 else "")


def listed(names: Sequence[str], most: int = 8) -> str:
    """Return names in a list, of which more than `most` are only counted."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def short_digests(text: str) -> str:
    """Shorten every SHA-256 in a text to twelve digits."""
    return _DIGEST.sub(r"\1", text)


def point_words(point: Point) -> str:
    """Format a sweep point: "batch_size=64, workers=2"."""
    return ", ".join(f"{name}={scalar_word(value)}" for name, value in point)


def scalar_word(value: Scalar | None) -> str:
    """Format a parameter value as on the command line."""
    return str(value).lower() if isinstance(value, bool) else str(value)
