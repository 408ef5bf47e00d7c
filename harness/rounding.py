"""Numbers in words: as many digits as an interval supports, counts of things; also digests and points.

Every sentence, table and chart writes them by these.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from harness.model.analysis import Estimate
from harness.model.run import Point, Scalar

_RATIO_DIGITS = 3
_DIGITS = 4
_DIGEST = re.compile(r"(?:sha256:)?\b([0-9a-f]{12})[0-9a-f]{52}\b")


def decimals(value: float, digits: int) -> int:
    """Return how many decimals give `value` so many significant digits; below 0 stands before the point."""
    if not value:
        return 0
    rounded = float(f"{abs(value):.{digits - 1}e}")  # 9.99 with two digits is 10, not 10.0
    return digits - 1 - math.floor(math.log10(rounded))


def estimate_decimals(value: Estimate, most: int | None = None) -> int:
    """Let the interval choose: its half width keeps one digit, or two when the first is a 1 or a 2.

    Args:
        value: the median; it keeps at least two digits.
        most: significant digits at most; three for ratios and four for all else when None.
    """
    if not math.isfinite(value.median):
        return 0
    if most is None:
        most = _RATIO_DIGITS if value.unit == "ratio" else _DIGITS
    half = (value.high - value.low) / 2
    wanted = decimals(value.median, 3)
    if value.n > 1 and half > 0:
        wanted = decimals(half, 2 if half / 10.0 ** math.floor(math.log10(half)) < 3 else 1)
    return min(max(wanted, decimals(value.median, 2)), decimals(value.median, most))


def fixed(value: float, places: int) -> str:
    """Write `value` rounded to so many decimals, thousands parted by commas."""
    return f"{round(value, places) + 0.0:,.{max(places, 0)}f}"  # -0.0 is 0


def three_digits(value: float) -> str:
    """Write `value` with three significant digits and all that stand before the point: "0.0951", "1,007"."""
    return fixed(value, max(decimals(value, 3), 0))


def counted(count: int, one: str, several: str = "") -> str:
    """Say how many there are: "no runs", "1 run", "1,200 runs".

    Args:
        count: 0 or more.
        one: what a single one is called.
        several: what several are called; "" for `one` with an s.
    """
    noun = one if count == 1 else several or f"{one}s"
    return f"{count:,} {noun}" if count else f"no {noun}"


def some(labels: Sequence[str], most: int = 3) -> str:
    """Name the first few, and count the others: "a, b, c and 4 more"."""
    more = len(labels) - most
    return ", ".join(labels[:most]) + (f" and {more} more" if more > 0 else "")


def short_digests(text: str) -> str:
    """Cut every SHA-256 in a text to the twelve digits that a person compares."""
    return _DIGEST.sub(r"\1", text)


def point_words(point: Point) -> str:
    """Say a point: "batch_size=64, workers=2"."""
    return ", ".join(f"{name}={scalar_word(value)}" for name, value in point)


def scalar_word(value: Scalar) -> str:
    """Say a parameter's value as one writes it on the command line."""
    return str(value).lower() if isinstance(value, bool) else str(value)
