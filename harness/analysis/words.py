"""Numbers as a sentence says them; the report's tables have their own, finer ways."""

from __future__ import annotations

from collections.abc import Sequence

from harness.model.analysis import Estimate
from harness.rounding import estimate_decimals, fixed


def percent(share: float) -> str:
    """Say a share between 0 and 1 in percent; below ten with two digits, so that none reads as 0."""
    value = share * 100
    return f"{value:.0f} %" if value >= 9.95 else f"{value:.2g} %"


def times(ratio: float) -> str:
    """Say a ratio: "6.23 times", "0.538 times"."""
    return f"{significant(ratio)} times"


def significant(value: float) -> str:
    """Say a number with three digits below a hundred and without decimals above, thousands parted."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def interval(estimate: Estimate) -> str:
    """Say the 95 % interval in brackets; "" when there is none."""
    if estimate.n < 2:
        return ""
    places = estimate_decimals(estimate)
    return f" (95 % interval {fixed(estimate.low, places)} to {fixed(estimate.high, places)})"


def rounded(estimate: Estimate) -> str:
    """Say a median with the digits that its interval supports."""
    return fixed(estimate.median, estimate_decimals(estimate))


def listed(words: Sequence[str]) -> str:
    """Join words as in a sentence: "a, b and c"."""
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))
