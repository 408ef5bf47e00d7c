"""Sentences about limits: whether a machine is accepted, what missed, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.analysis.quantities import quantity_of, values
from harness.model.analysis import Advice, Analysis, Estimate, Limit, LimitCheck, LimitOutcome, LimitResult
from harness.model.platform import HOST
from harness.wording import counted, some
from reports import machine, numbers
from reports.text import device_name

SHOWN = 3
LEVELS: Mapping[LimitOutcome, str] = {
    LimitOutcome.MET: "good",
    LimitOutcome.UNDECIDED: "notice",
    LimitOutcome.NOT_MEASURED: "notice",
    LimitOutcome.MISSED: "alert",
}
_HEALTH = ("ok", "attention", "fail")


def sentence(results: Sequence[LimitResult]) -> str:
    """Return the first screen's sentence: "Accepted: 14 of 14 limits."; "" without limits."""
    if not results:
        return ""
    outcomes = [result.outcome for result in results]
    met = f"{outcomes.count(LimitOutcome.MET)} of {counted(len(results), 'limit')}"
    worst = next(outcome for outcome in LimitOutcome if outcome in outcomes)
    if worst is LimitOutcome.MET:
        return f"Accepted: {met}."
    return f"{worst.value.capitalize()}: {_listed(results, worst)}. Met: {met}."


def level(results: Sequence[LimitResult]) -> str:
    """Return "good", "notice" or "alert"."""
    found = {result.outcome for result in results}
    return next((LEVELS[outcome] for outcome in LimitOutcome if outcome in found), "good")


def _listed(results: Sequence[LimitResult], outcome: LimitOutcome) -> str:
    found = [
        f"{subject(result.limit, check)}: {short(result.limit, check)}" if check.value else result.limit.name
        for result in results
        for check in result.checks
        if check.outcome is outcome
    ]
    more = f"; and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return "; ".join(found[:SHOWN]) + more


def subject(limit: Limit, check: LimitCheck) -> str:
    """Return what was checked where: "GPU 2, host to GPU, pinned"."""
    where = "host" if check.device == HOST else device_name(check.device)
    return f"{where}, {name(limit)}" if check.device else name(limit)


def name(limit: Limit) -> str:
    """Return a limit's quantity in words: capabilities by their names, others as in the file."""
    words = [
        machine.capability_name(name.removeprefix("capability.")) if name.startswith("capability.") else name
        for name in (limit.name, limit.over)
        if name
    ]
    return " / ".join(words)


def short(limit: Limit, check: LimitCheck) -> str:
    """Return value and bound: "31 of 54 GB/s"; for what may not be above it "40 ms, at most 30 ms"."""
    if check.value is None:
        return "not measured"
    value, bound = (quantity(amount, check.value.unit) for amount in (check.value.median, limit.bound))
    if check.value.unit == "level":
        return f"{value}, not {bound}" if check.outcome is LimitOutcome.MISSED else value
    if limit.at_most:
        return f"{value}, at most {bound}"
    number, _, unit = value.rpartition(numbers.SPACE)
    return f"{number if number and bound.endswith(f'{numbers.SPACE}{unit}') else value} of {bound}"


def quantity(value: float, unit: str) -> str:
    """Return a value in its unit with a decimal prefix."""
    if unit == "level":
        return _HEALTH[round(value)]
    if unit == "s":
        return numbers.duration(value)
    if unit == "B":
        return numbers.size(round(value))
    # A launch is worded as a time elsewhere, but limits are rates.
    return (
        numbers.number(value) if unit == "ratio" else numbers.rate(value, unit.replace("kernels", "launches"))
    )


def interval(check: LimitCheck) -> str:
    """Return the interval that decided, or why there is none."""
    value: Estimate | None = check.value
    if value is None:
        return numbers.MISSING
    if value.n < 2:
        return "one reading" if check.outcome is LimitOutcome.UNDECIDED else numbers.MISSING
    return _ends(value)


def _ends(value: Estimate) -> str:
    return f"{quantity(value.low, value.unit)} to {quantity(value.high, value.unit)}"


def action(limit: Limit, check: LimitCheck) -> str:
    """Return what to do about a limit that is not met; "" for one that is."""
    if check.outcome is LimitOutcome.NOT_MEASURED:
        quantities = (quantity_of(name) for name in (limit.name, limit.over) if name)
        needs = dict.fromkeys(quantity.needs for quantity in quantities if quantity)
        return f"a run that measures it needs {' and '.join(needs)}"
    if check.outcome is LimitOutcome.UNDECIDED:
        if check.more is None:
            return "too close to the limit for any number of trials to decide"
        return f"{counted(check.more, 'more reading')} would decide: repeat with more --trials"
    if check.advice is None:
        return ""
    if check.check is not None:
        item = check.check
        return f"{machine.checked_device(item.device)}, {item.check.value}: {machine.health_text(item)}"
    return _ADVICE[check.advice]


_ADVICE = {
    Advice.COOL: "its clock was lowered for heat or by the hardware: check cooling and power supply, and repeat",
    Advice.REPEAT: "the host was disturbed during this run: repeat on a quiet host",
    Advice.OTHER_SLOT: "no health check explains it: reseat the card or try another slot, repeat, and return the card "
    "if the loss moves with it",
    Advice.RETURN: "no health check, clock or disturbance explains it: repeat once, and return it if it misses again",
}


def summary(results: Sequence[LimitResult]) -> Iterator[tuple[str, str]]:
    """Yield outcome and text for the terminal: each miss, and the others in a line for each outcome."""
    pairs = list(rows(results))
    for result, check in pairs:
        if check.outcome is LimitOutcome.MISSED:
            yield "Missed", f"{subject(result.limit, check)}: {action(result.limit, check)}"
    if open_ := [check for _, check in pairs if check.outcome is LimitOutcome.UNDECIDED]:
        needed = sorted({check.more for check in open_ if check.more})
        more = f"{needed[0]} to {needed[-1]}" if needed[1:] else "".join(map(str, needed))
        decide = f"; {more} more readings would decide" if more else ""
        yield "Undecided", f"{counted(len(open_), 'value')}{decide}: see the section Acceptance"
    if missing := [
        result.limit.text for result, check in pairs if check.outcome is LimitOutcome.NOT_MEASURED
    ]:
        yield "Not measured", some(missing)


def named(analysis: Analysis) -> Iterator[tuple[str, str, str, str]]:
    """Yield name, device, value and interval of every number that a limit may be about."""
    for value in values(analysis):
        estimate = value.estimate
        ends = _ends(estimate) if estimate.n > 1 else numbers.MISSING
        yield value.name, machine.checked_device(value.device), quantity(estimate.median, estimate.unit), ends


def rows(results: Sequence[LimitResult]) -> Iterator[tuple[LimitResult, LimitCheck]]:
    """Yield each limit with each device, the worst outcomes first."""
    pairs = [(result, check) for result in results for check in result.checks]
    order = list(LimitOutcome)
    yield from sorted(pairs, key=lambda pair: order.index(pair[1].outcome))
