"""Student's t distribution for any level and any degrees of freedom, whole or not.

Welch's test has degrees of freedom between the whole numbers, and intervals that hold together need levels
that no table has. The incomplete beta function is the continued fraction of DLMF 8.17.22, evaluated by
Lentz's method (Thompson & Barnett 1986).
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

_TINY = 1e-300
_ENOUGH = 1e-14


def upper_tail(t: float, degrees: float) -> float:
    """Return the probability that Student's t exceeds `t`, for `t` of zero or more."""
    return 0.5 * incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t))


@lru_cache(maxsize=4096)
def quantile(tail: float, degrees: float) -> float:
    """Return the t that a share `tail`, below one half, lies above.

    Newton's method from the normal quantile, which lies below: the distribution is concave there, so that
    every step stays below the root and nears it.
    """
    t = NormalDist().inv_cdf(1 - tail)
    scale = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(degrees * math.pi)
    for _ in range(200):
        density = scale * (1 + t * t / degrees) ** (-(degrees + 1) / 2)
        step = (upper_tail(t, degrees) - tail) / density
        t += step
        if abs(step) <= 1e-10 * t:
            break
    return t


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function, the distribution of a beta variable at `x`."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(a, b, x) / a
    return 1 - front * _fraction(b, a, 1 - x) / b


def _fraction(a: float, b: float, x: float) -> float:
    c = 1.0
    d = _away_from_zero(1 - (a + b) * x / (a + 1))
    value = d = 1 / d
    for m in range(1, 500):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _away_from_zero(1 + term * d)
            c = _away_from_zero(1 + term / c)
            value *= c * d
        if abs(c * d - 1) < _ENOUGH:
            break
    return value


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
