"""A line for each workload and device: how fast it is, what it serves, and what holds it back."""

from __future__ import annotations

from collections.abc import Iterator

from harness.analysis.rules import LEFT_OUT, NOT_MEASURED, primary
from harness.analysis.words import interval, percent, rounded
from harness.model.analysis import Analysis, Capacity, Finding, Summary, Verdict
from workloads.protocol import BASELINE


def outcomes(analysis: Analysis) -> tuple[str, ...]:
    """Return one line for each workload and device that was measured, in the summaries' order.

    The speed is that of baseline, or of the first variant where that was not run. What holds it back is what
    the report puts first.
    """
    variants: dict[tuple[str, str], list[Summary]] = {}
    for one in analysis.summaries:
        variants.setdefault((one.workload, one.device), []).append(one)
    return tuple(
        f"{workload} on {device}: {_speed(measured)}; "
        + "; ".join((*_served(analysis, workload, device), *_held_back(analysis, workload, device)))
        for (workload, device), measured in variants.items()
    )


def _speed(measured: list[Summary]) -> str:
    one = next((each for each in measured if each.variant == BASELINE), measured[0])
    return f"{one.variant} {rounded(one.throughput)} samples/s{interval(one.throughput)}"


def _served(analysis: Analysis, workload: str, device: str) -> Iterator[str]:
    """Say how many requests a second each variant serves, within the least bound to which a rate kept."""
    variants: dict[str, list[Capacity]] = {}
    for one in analysis.capacities:
        if (one.workload, one.device) == (workload, device):
            variants.setdefault(one.variant, []).append(one)
    for variant, within in variants.items():
        first = next((one for one in within if one.rate_per_s and not one.at_least), None)
        if first is not None and first.rate_per_s is not None:
            rate = f"{rounded(first.rate_per_s)} requests/s{interval(first.rate_per_s)}"
            yield f"{variant} serves {rate}, 99 % of them within {first.bound_s * 1e3:g} ms"
        else:
            last = within[-1]
            yield f"{variant} serves no rate that is known within {last.bound_s * 1e3:g} ms: {last.why}"


def _held_back(analysis: Analysis, workload: str, device: str) -> Iterator[str]:
    first = primary(analysis.verdicts, workload, device)
    if first is not None:
        cost = f", about {percent(first.cost)} of the time" if first.cost is not None else ""
        yield f"held back by: {first.cause}{cost} ({first.rule})"
        return
    yield _nothing([one for one in analysis.verdicts if (one.workload, one.device) == (workload, device)])


def _nothing(verdicts: list[Verdict]) -> str:
    sentences = {one.sentence for one in verdicts}
    if LEFT_OUT in sentences:
        return "what holds it back was not looked into (--no-analysis)"
    if NOT_MEASURED in sentences:
        return f"what holds it back was not looked into ({BASELINE} was not run)"
    if not verdicts or any(one.finding is Finding.INCONCLUSIVE for one in verdicts):
        return "what holds it back could not be told from what was recorded"
    return "no single cause holds it back"
