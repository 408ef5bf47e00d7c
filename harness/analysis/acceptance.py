"""Hold the values of a run against limits, and say what a missed one calls for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from harness.analysis.quantities import applying, values
from harness.intervals import t_quantile
from harness.model.analysis import (
    MIN_TRIALS,
    Advice,
    Analysis,
    Cause,
    CaveatKind,
    Estimate,
    Limit,
    LimitCheck,
    LimitOutcome,
    LimitResult,
    Value,
)
from harness.model.device import gpu_names
from harness.model.platform import HOST, HealthCheck, HealthItem
from workloads.protocol import COPIES

MAX_MORE = 1000
# They describe how a machine is set up and slow nothing down by themselves.
_HARMLESS = (HealthCheck.PERSISTENCE, HealthCheck.NUMA)
_DISTURBED = (Cause.OTHER_PROGRAMS, Cause.STEAL)


def accepted(analysis: Analysis, limits: Iterable[Limit]) -> tuple[LimitResult, ...]:
    """Return each limit with its outcome on every device that it applies to."""
    measured = values(analysis)
    return tuple(
        LimitResult(limit=limit, checks=tuple(_checks(analysis, measured, limit))) for limit in limits
    )


def _checks(analysis: Analysis, measured: Sequence[Value], limit: Limit) -> Iterator[LimitCheck]:
    found = list(_found(measured, limit))
    for value in found:
        yield _check(analysis, value, limit)
    if not found:
        yield LimitCheck(device=limit.device, outcome=LimitOutcome.NOT_MEASURED)


def _found(measured: Sequence[Value], limit: Limit) -> Iterator[Value]:
    top = applying((each for each in measured if each.name == limit.name), limit.device)
    for each in top:
        if not limit.over:
            yield each
        for below in measured:
            if (below.name, below.device) == (limit.over, each.device) and below.estimate.median > 0:
                yield _quotient(each, below)


def _quotient(top: Value, bottom: Value) -> Value:
    """Return a quotient, with the widest interval that both allow."""
    over, under = top.estimate, bottom.estimate
    quotient = Estimate(
        median=over.median / under.median,
        low=over.low / under.high,
        high=over.high / under.low if under.low > 0 else math.inf,
        n=min(over.n, under.n),
        unit="ratio",
    )
    exact = top.exact and bottom.exact
    return Value(name=top.name, device=top.device, estimate=quotient, lower=top.lower, exact=exact)


def _check(analysis: Analysis, value: Value, limit: Limit) -> LimitCheck:
    outcome = outcome_of(value, limit)
    missed = outcome is LimitOutcome.MISSED
    advice, item = _advice(analysis, value) if missed else (None, None)
    more = more_readings(value.estimate, limit.bound) if outcome is LimitOutcome.UNDECIDED else None
    return LimitCheck(
        device=value.device, outcome=outcome, value=value.estimate, more=more, advice=advice, check=item
    )


def outcome_of(value: Value, limit: Limit) -> LimitOutcome:
    """Return what a value's interval says of a limit; a single reading decides only if it is exact."""
    estimate = value.estimate
    if estimate.n < 2 and not value.exact:
        return LimitOutcome.UNDECIDED
    low, high, bound = estimate.low, estimate.high, limit.bound
    if limit.at_most:
        low, high, bound = -high, -low, -bound
    if low >= bound:
        return LimitOutcome.MET
    return LimitOutcome.MISSED if high < bound else LimitOutcome.UNDECIDED


def more_readings(value: Estimate, bound: float) -> int | None:
    """Return how many more readings would take a bound out of the interval, if they scatter like these.

    None above MAX_MORE, where the median is at the bound.
    """
    if value.n < 2:
        return MIN_TRIALS - value.n
    if min(value.low, bound) <= 0:
        return None
    distance = abs(math.log(value.median / bound))
    half = max(math.log(value.high / value.median), math.log(value.median / value.low))
    deviation = half * math.sqrt(value.n) / t_quantile(value.degrees)
    for more in range(1, MAX_MORE + 1):
        n = value.n + more
        if t_quantile(value.degrees + more) * deviation / math.sqrt(n) < distance:
            return more
    return None


def _advice(analysis: Analysis, value: Value) -> tuple[Advice, HealthItem | None]:
    devices = gpu_names(value.device) or (value.device,)
    for item in analysis.problems:
        if item.device in (*devices, HOST) and item.check not in _HARMLESS:
            return Advice.HEALTH, item
    slowed = {
        cause
        for case, _, each in analysis.variants
        if each.clocks and set(gpu_names(case.device)) & set(devices)
        for cause in each.clocks.slowed
    }
    if slowed & {Cause.HEAT, Cause.HARDWARE}:
        return Advice.COOL, None
    # What a GPU computes does not depend on its host's other work; trials on the CPU are no witnesses of it.
    disturbed = {
        case.device for case in analysis.cases if any(each.cause in _DISTURBED for each in case.findings)
    }
    disturbed |= {each.device for each in analysis.caveats if each.kind is CaveatKind.SLOW_PERIOD}
    if value.device in disturbed:
        return Advice.REPEAT, None
    if value.name.removeprefix("capability.") in COPIES:
        return Advice.OTHER_SLOT, None
    return Advice.RETURN, None
