"""Tokens that models generate: the time to the first, the time of each further one, and the memory bandwidth in use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.analysis.case import Case
from harness.model.analysis import Capability, Generation
from workloads.protocol import FIRST_TOKEN, PER_TOKEN, SEQUENCE_BYTES, STEP_BYTES
from workloads.variants import BASELINE


def generation(case: Case, variant: str, measured: Sequence[Capability]) -> Iterator[Generation]:
    """Yield the speed of generation at each batch size whose requests were timed."""
    found = case.variants[variant].latencies
    first = {each.batch_size: each for each in found if each.scenario == FIRST_TOKEN}
    for each in found:
        start = first.get(each.batch_size)
        if each.scenario != PER_TOKEN or start is None:
            continue
        per_sequence = each.samples_per_s.median / each.batch_size
        yield Generation(
            batch_size=each.batch_size,
            first_s=start.quantiles_s,
            token_s=each.quantiles_s,
            tokens_per_s=each.samples_per_s.map(lambda speed: speed, "tokens/s"),
            bandwidth=needed_bandwidth(case, variant, each.batch_size, per_sequence, measured),
            requests=each.requests,
        )


def needed_bandwidth(
    case: Case, variant: str, batch_size: int, steps_per_s: float, measured: Sequence[Capability]
) -> float | None:
    """Return the share of the measured memory bandwidth that a loop needs for weights and cache; None if unknown.

    Args:
        batch_size: sequences.
        steps_per_s: steps of the loop, each of which makes a token of every sequence.
    """
    weights, cache = (
        case.metric(variant, name) or case.metric(BASELINE, name) for name in (STEP_BYTES, SEQUENCE_BYTES)
    )
    peak = next((each for each in measured if (each.device, each.name) == (case.device, "memory")), None)
    if weights is None or cache is None or peak is None:
        return None
    return (weights + batch_size * cache) * steps_per_s / peak.value.median
