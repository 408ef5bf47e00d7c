"""Format numbers for people, with one rounding rule for each kind of quantity."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime

from harness.model.analysis import Estimate
from harness.model.workload import Published
from workloads.protocol import WORTH

SPACE = "\u202f"  # narrow no-break space: joins a number to its unit
MISSING = "–"
ONE = "1 reading"  # instead of an interval
_MINUS = "\u2212"
# From here on, and with more decimals, numbers have an exponent.
_HUGE, _MOST_DECIMALS = 1e15, 12


def number(value: float | None, digits: int = 3) -> str:
    """Format a number with `digits` significant digits and thousands separators."""
    return MISSING if value is None or not math.isfinite(value) else _fixed(value, _decimals(value, digits))


def speed(value: Estimate | None) -> str:
    """Format samples or requests per second with three digits, so that printed numbers agree when divided."""
    return MISSING if value is None else f"{number(value.median)}/s"


def interval(value: Estimate | None) -> str:
    """Format the 95 % interval with the decimals of its median, at least two digits; "1 reading" without one."""
    if value is None:
        return MISSING
    if not value.known:
        return ONE
    places = _decimals(value.median, 3)
    low, high = (_fixed(end, max(places, _decimals(end, 2))) for end in (value.low, value.high))
    return f"{low} to {high}"


def spread(value: Estimate | None) -> str:
    """Format half the width of the 95 % interval: "±4 %"; "" without one."""
    width = value.half_width if value else None
    if width is None:
        return ""
    return f"±{percent(width)}" if width < 1 else f"over ±100{SPACE}%"


def factor(value: float) -> str:
    """Format a gain with three digits, at most two of them decimals: "0.65×", "1.38×", "39.6×", "190×"."""
    if not math.isfinite(value):
        return MISSING
    if beyond := _beyond(value):
        return f"{beyond}×"
    return f"{_fixed(value, min(2, _decimals(value, 3))) if value >= 0.1 else number(value, 2)}×"


def factor_with_interval(value: Estimate) -> str:
    """Format a gain with its 95 % interval: "1.38× (1.30 to 1.46)"; "9.08× (1 reading)" without one."""
    if not value.known:
        return f"{factor(value.median)} ({ONE})"
    low, high = (factor(end).removesuffix("×") for end in (value.low, value.high))
    return f"{factor(value.median)} ({low} to {high})"


def is_gain(ratio: Estimate) -> bool:
    """Return whether a speedup is worth naming: large enough, and above 1 as far as several readings tell."""
    return ratio.median >= WORTH and (ratio.low > 1 or not ratio.known)


def gain(value: Estimate) -> str:
    """Format a gain with half its interval: "1.38× ±6 %", "9.08×" without one.

    One whose interval includes 1 is no clear difference: "0.90 to 1.20×".
    """
    if value.known and value.low <= 1 <= value.high:
        return f"no clear difference ({factor(value.low).removesuffix('×')} to {factor(value.high)})"
    return f"{factor(value.median)} {spread(value)}".strip()


def ratio(value: float) -> str:
    """Format a ratio of two runs' speeds, which may be close to 1, with two decimals: "0.93×", "12.4×"."""
    return f"{_ratio(value)}×" if math.isfinite(value) else MISSING


def ratio_interval(value: Estimate) -> str:
    """Format the interval of a ratio of two runs' speeds: "0.91 to 0.95"; "" for one trial."""
    return "" if not value.known else f"{_ratio(value.low)} to {_ratio(value.high)}"


def ratio_estimate(value: Estimate) -> str:
    """Format a ratio of two runs' speeds with its interval: "0.93× (0.91 to 0.95)"."""
    interval = ratio_interval(value)
    return f"{ratio(value.median)} ({interval})" if interval else ratio(value.median)


def _ratio(value: float) -> str:
    if beyond := _beyond(value):
        return beyond
    return _fixed(value, 2) if 0.1 <= value < 10 else number(value, 3 if value >= 10 else 2)


def _beyond(value: float) -> str:
    """Return a text for a ratio that is no result of a measurement; "" for others."""
    # Ends of an interval from two trials can be this far apart.
    return "" if 0.001 <= value < 10_000 else "0" if value < 1 else "over 10,000"


def percent(share: float | None) -> str:
    """Format a share from 0 to 1 as a percentage: whole numbers from 10 % up, one decimal below."""
    if share is None or not math.isfinite(share):
        return MISSING
    value = share * 100
    if abs(value) < 0.05:
        return f"{'<0.1' if value > 0.0 else '0'}{SPACE}%"
    return f"{_fixed(value, 0 if abs(value) >= 9.95 else 1)}{SPACE}%"


def duration(seconds: float) -> str:
    """Format a duration in suitable units: "17 min 55 s", "3.1 ms"."""
    if not math.isfinite(seconds):
        return MISSING
    if seconds >= _HUGE:
        return f"{number(seconds / 3600)}{SPACE}h"
    if seconds >= 3600:
        minutes = round(seconds / 60)
        return f"{minutes // 60}{SPACE}h {minutes % 60:02d}{SPACE}min"
    if seconds >= 90:
        whole = round(seconds)
        return f"{whole // 60}{SPACE}min {whole % 60:02d}{SPACE}s"
    return (
        _scaled(seconds, ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))) if seconds else f"0{SPACE}s"
    )


def _scaled(value: float, units: Sequence[tuple[float, str]]) -> str:
    """Format a value in the largest unit in which it is at least 1, else in the smallest."""
    scale, unit = next((unit for unit in units if abs(value) >= unit[0]), units[-1])
    return f"{number(value / scale)}{SPACE}{unit}"


def rate(value: float, unit: str) -> str:
    """Format a rate in FLOP/s or B/s with a decimal prefix, others as they are; launches as the time of one."""
    if unit == "kernels/s":
        return f"{duration(1 / value)} each"
    if unit in ("FLOP/s", "B/s"):
        return _scaled(value, ((1e12, f"T{unit}"), (1e9, f"G{unit}"), (1e6, f"M{unit}")))
    return f"{number(value)}{SPACE}{unit}"


def milliseconds(seconds: float) -> str:
    """Format the time of a step or part, always in milliseconds so that parts can be compared."""
    return number(seconds * 1e3)


def quantity(value: Estimate | None) -> str:
    """Format a measured value according to its unit: seconds, a ratio, a share or a speed."""
    if value is None:
        return MISSING
    if value.unit == "s":
        return duration(value.median)
    if value.unit == "ratio":
        return factor(value.median)
    return percent(value.median) if value.unit == "share" else speed(value)


def published(figure: Published) -> str:
    """Format a published number or range with its published digits."""
    ends = [figure.value, figure.upto] if figure.upto else [figure.value]
    if figure.unit == "s":
        return " to ".join(duration(end) for end in ends)
    if figure.unit in ("accuracy", "utilisation"):
        return f"{' to '.join(f'{end * 100:g}' for end in ends)}{SPACE}%"
    text = " to ".join(f"{end:,.10g}" for end in ends)
    return f"{text}×" if figure.unit in ("ratio", "requests ratio", "gain") else f"{text}/s"


def size(bytes_: float | None) -> str:
    """Format a number of bytes in binary units."""
    units = [(1024.0**power, unit) for power, unit in enumerate(("B", "KiB", "MiB", "GiB", "TiB"))]
    return MISSING if bytes_ is None else _scaled(float(bytes_), units[::-1])


def energy(joules: float) -> str:
    """Format an energy in kJ, J, mJ or µJ."""
    return _scaled(joules, ((1e3, "kJ"), (1.0, "J"), (1e-3, "mJ"), (1e-6, "µJ")))


def money(value: Estimate) -> str:
    """Format an amount in its currency."""
    return f"{number(value.median)}{SPACE}{value.unit}"


def when(created: str) -> str:
    """Format an ISO 8601 time for people; return any other text unchanged."""
    try:
        moment = datetime.fromisoformat(created)
    except ValueError:
        return created
    return f"{moment.day} {moment:%B %Y, %H:%M} {moment.tzname() or ''}".strip()


def _decimals(value: float, digits: int) -> int:
    """Return the decimals that give `value` this many significant digits; can be negative."""
    if not value:
        return 0
    rounded = float(f"{abs(value):.{digits - 1}e}")  # 9.99 with two digits is 10, not 10.0
    return digits - 1 - math.floor(math.log10(rounded))


def _fixed(value: float, places: int) -> str:
    if abs(value) >= _HUGE or places > _MOST_DECIMALS:
        return f"{value:.3g}".replace("e+", "e").replace("-", _MINUS)
    rounded = round(value, places) + 0.0  # -0.0 is 0
    return f"{rounded:,.{max(places, 0)}f}".replace("-", _MINUS)
