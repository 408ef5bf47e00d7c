"""Numbers as people read them: significant digits from the interval, thin spaces, units that fit."""

from __future__ import annotations

import math
from datetime import datetime

from harness.model.analysis import Estimate
from harness.rounding import decimals, estimate_decimals, fixed

THIN = "\u202f"  # narrow no-break space: groups digits and joins a number to its unit
MISSING = "not available"
_MINUS = "\u2212"
_RATIO_DIGITS = 3


def number(value: float, digits: int = 3) -> str:
    """Write `value` with `digits` significant digits and grouped thousands."""
    if not math.isfinite(value):
        return MISSING
    return _fixed(value, decimals(value, digits))


def estimate(value: Estimate | None, most: int = 4) -> str:
    """Write a median with as many digits as its interval supports, at least two and at most `most`."""
    return MISSING if value is None else _fixed(value.median, estimate_decimals(value, most))


def interval(value: Estimate | None, most: int = 4) -> str:
    """Write the 95 % interval with the digits of its median; "one trial" where there is none."""
    if value is None:
        return MISSING
    if not has_interval(value):
        return "one trial"
    places = estimate_decimals(value, most)
    return f"{_fixed(value.low, places)} to {_fixed(value.high, places)}"


def half_width(value: Estimate | None) -> str:
    """Write half the interval's width as a share of the median, "" where there is no interval."""
    if value is None or not has_interval(value) or value.median == 0:
        return ""
    return f"± {number((value.high - value.low) / 2 / abs(value.median) * 100, 2)}{THIN}%"


def has_interval(value: Estimate) -> bool:
    """Tell whether `value` rests on more than one independent measurement."""
    return value.n > 1


def ratio(value: float) -> str:
    """Write a ratio, "3.1×"."""
    return f"{number(value, 3 if value < 100 else 2)}×" if math.isfinite(value) else MISSING


def ratio_estimate(value: Estimate | None) -> str:
    """Write a ratio with its interval, "3.1× (3.0 to 3.2)"."""
    if value is None:
        return MISSING
    tail = f" ({interval(value, _RATIO_DIGITS)})" if has_interval(value) else ""
    return f"{estimate(value, _RATIO_DIGITS)}×{tail}"


def percent(share: float | None, digits: int = 2) -> str:
    """Write a share between 0 and 1 as a percentage; below 0.01 % counts as 0 %."""
    if share is None or not math.isfinite(share):
        return MISSING
    return f"{number(share * 100, digits) if abs(share) >= 1e-4 else '0'}{THIN}%"


def duration(seconds: float) -> str:
    """Write a time in the units that a person would use: "17 min 55 s", "3.1 ms"."""
    if not math.isfinite(seconds):
        return MISSING
    if seconds >= 3600:
        minutes = round(seconds / 60)
        return f"{minutes // 60}{THIN}h {minutes % 60:02d}{THIN}min"
    if seconds >= 90:
        whole = round(seconds)
        return f"{whole // 60}{THIN}min {whole % 60:02d}{THIN}s"
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if abs(seconds) >= scale:
            return f"{number(seconds / scale)}{THIN}{unit}"
    return f"{number(seconds / 1e-9)}{THIN}ns" if seconds else f"0{THIN}s"


def quantity(value: float, unit: str) -> str:
    """Write a published or measured figure in its unit: seconds as a duration, "ratio" as a factor."""
    if unit == "s":
        return duration(value)
    if unit in ("ratio", "requests ratio", "gain"):
        return ratio(value)
    if unit in ("accuracy", "utilisation", "share"):
        return percent(value)
    return f"{number(value, 4)}{THIN}{unit}"


def published_quantity(value: float, upto: float, unit: str) -> str:
    """Write a published figure with the digits that it was published with, or the range."""
    ends = [value, upto] if upto else [value]
    if unit == "s":
        return " to ".join(duration(end) for end in ends)
    if unit in ("accuracy", "utilisation"):
        return f"{' to '.join(f'{end * 100:g}' for end in ends)}{THIN}% {unit}"
    if unit in ("ratio", "requests ratio", "gain"):
        return f"{' to '.join(f'{end:g}' for end in ends)}×{' by tuning' if unit == 'gain' else ''}"
    return f"{' to '.join(f'{end:,g}'.replace(',', THIN) for end in ends)}{THIN}{unit}"


def quantity_estimate(value: Estimate) -> str:
    """Write a median in its own unit."""
    if value.unit == "s":
        return duration(value.median)
    if value.unit == "ratio":
        return f"{estimate(value, _RATIO_DIGITS)}×"
    if value.unit == "share":
        return percent(value.median)
    return f"{estimate(value)}{THIN}{value.unit}"


def size(bytes_: float | None) -> str:
    """Write a number of bytes in binary units."""
    if bytes_ is None:
        return MISSING
    value = float(bytes_)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{number(value)}{THIN}{unit}"
        value /= 1024
    return f"{number(value)}{THIN}TiB"


def when(created: str) -> str:
    """Write an ISO 8601 time for people; anything else is given back as it is."""
    try:
        moment = datetime.fromisoformat(created)
    except ValueError:
        return created
    return f"{moment.day} {moment:%B %Y, %H:%M} {moment.tzname() or ''}".strip()


def _fixed(value: float, places: int) -> str:
    return fixed(value, places).replace(",", THIN).replace("-", _MINUS)


def energy(joules: float) -> str:
    """Write an energy in J, mJ, µJ or kJ."""
    if not math.isfinite(joules):
        return MISSING
    for scale, unit in ((1e3, "kJ"), (1.0, "J"), (1e-3, "mJ")):
        if abs(joules) >= scale:
            return f"{number(joules / scale)}{THIN}{unit}"
    return f"{number(joules / 1e-6)}{THIN}µJ"


def electricity(kwh: float) -> str:
    """Write an energy as people are billed for it: kWh, Wh or mWh."""
    if not math.isfinite(kwh):
        return MISSING
    for scale, unit in ((1.0, "kWh"), (1e-3, "Wh")):
        if abs(kwh) >= scale:
            return f"{number(kwh / scale)}{THIN}{unit}"
    return f"{number(kwh / 1e-6)}{THIN}mWh"


def money(value: Estimate) -> str:
    """Write an amount in its currency with as many digits as its interval supports, at most three."""
    return f"{estimate(value, 3)}{THIN}{value.unit}"
