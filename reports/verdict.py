"""The verdict of a run in one or two sentences: what limits its workloads, what fixes gain, what the GPU adds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from harness.model.analysis import Analysis, Capacity
from reports import numbers
from reports.names import SHORT_PARTS, is_gpu
from reports.overview import Row
from workloads.protocol import BASELINE, TUNED, WORTH


def verdict(analysis: Analysis, overview: Sequence[Row]) -> str:
    """Return the verdict; "" if nothing was measured."""
    sentences = (
        "; ".join(parts)
        for parts in (
            [*_limits(overview), *_gains(overview)],
            [*_peak(analysis), *_beside_cpu(overview), *_scaling(overview)],
            list(_served(analysis)),
        )
    )
    return " ".join(f"{each[0].upper()}{each[1:]}." for each in sentences if each)


def _limits(overview: Sequence[Row]) -> Iterator[str]:
    """Yield how many workloads each part limits: "input limits 2 of 4 workloads, compute 2"."""
    parts = Counter(
        SHORT_PARTS.get(each, each.value)
        for row in overview
        if row.finding and (each := next(iter(row.finding.parts), None))
    )
    if not parts:
        return
    (first, count), *others = parts.most_common()
    what = f"{count} of {len(overview)} workloads" if len(overview) > 1 else overview[0].name
    yield ", ".join([f"{first} limits {what}", *(f"{part} {number}" for part, number in others)])


def _gains(overview: Sequence[Row]) -> Iterator[str]:
    gains = [row.gain.median for row in overview if row.gain]
    if gains and max(gains) < WORTH:
        yield "no change of the code made it faster"
    elif gains:
        yield f"with all fixes {_range(gains, numbers.factor)} as fast"


def _peak(analysis: Analysis) -> Iterator[str]:
    """Yield the share of the GPU's measured peak that published and tuned code use."""
    shares = {
        variant: [
            each.of_measured
            for each in analysis.peak_use
            if each.variant == variant and is_gpu(each.device) and each.of_measured is not None
        ]
        for variant in (BASELINE, TUNED)
    }
    if shares[BASELINE]:
        tuned = f", tuned {_range(shares[TUNED], numbers.percent)}" if shares[TUNED] else ""
        yield f"the code as written uses {_range(shares[BASELINE], numbers.percent)} of the GPU's peak{tuned}"


def _beside_cpu(overview: Sequence[Row]) -> Iterator[str]:
    ratios = [row.tuned_over_cpu.median for row in overview if row.tuned_over_cpu]
    if ratios:
        yield f"tuned, the GPU is {_range(ratios, numbers.factor)} as fast as this machine's CPUs"


def _scaling(overview: Sequence[Row]) -> Iterator[str]:
    """Yield the lowest efficiency of several GPUs."""
    scaled = [(each.median, row) for row in overview if (each := row.tuned_scaling or row.scaling)]
    if scaled:
        share, row = min(scaled, key=lambda one: one[0])
        yield f"{row.name} keeps {numbers.percent(share)} of one GPU's speed per GPU"


def _served(analysis: Analysis) -> Iterator[str]:
    best: dict[str, Capacity] = {}
    for each in analysis.capacities:
        if each.rate_per_s and (each.workload not in best or each.variant == TUNED):
            best[each.workload] = each
    for each in best.values():
        rate = f"{numbers.speed(each.rate_per_s).removesuffix('/s')} requests a second"
        yield f"{each.workload} serves {rate} within {numbers.duration(each.bound_s)}"


def _range(values: Sequence[float], text: Callable[[float], str]) -> str:
    """Return "2 to 9 %", or one value if both ends read alike."""
    low, high = text(min(values)), text(max(values))
    return high if low == high else f"{low.rstrip(f'%×{numbers.SPACE}')} to {high}"
