"""Ratios between what was measured, and what was measured beside what was published."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.analysis.align import gpu_names
from harness.analysis.measures import Key, Measures, by_index
from harness.analysis.stats import ratio
from harness.model import Comparison, Estimate, PublishedComparison, Run, Summary
from workloads.protocol import AS_WRITTEN, INPUT_ONLY, RUNG_PREFIX, STAGE_PREFIX, TUNED, Published, Workload

GPU_OVER_CPU = "gpu-over-cpu"
TUNED_OVER_AS_WRITTEN = "tuned-over-as-written"
RUNG_OVER_AS_WRITTEN = "rung-over-as-written"
# Throughput of n cards over n times that of one, 1 when nothing is lost.
SCALING = "scaling"

CPU = "cpu"


def comparisons(found: Measures) -> tuple[Comparison, ...]:
    """Return every ratio that the measures allow: GPU over CPU, tuned and rungs over as-written, scaling."""
    return tuple(_comparisons(found))


def _comparisons(found: Measures) -> Iterator[Comparison]:
    for key in found:
        if key.device != CPU and not key.leg.startswith((INPUT_ONLY, RUNG_PREFIX, STAGE_PREFIX)):
            yield from _ratio(found, GPU_OVER_CPU, key, key._replace(device=CPU))
        if key.leg == TUNED:
            yield from _ratio(found, TUNED_OVER_AS_WRITTEN, key, key._replace(leg=AS_WRITTEN))
        if key.leg.startswith(RUNG_PREFIX):
            yield from _ratio(found, RUNG_OVER_AS_WRITTEN, key, key._replace(leg=AS_WRITTEN))
        cards = gpu_names(key.device)
        if len(cards) > 1 and key.leg in (AS_WRITTEN, TUNED):
            yield from _ratio(found, SCALING, key, key._replace(device=cards[0]), len(cards))


def _ratio(found: Measures, kind: str, top: Key, bottom: Key, cards: int = 1) -> Iterator[Comparison]:
    if bottom not in found:
        return
    per_card = {index: value / cards for index, value in by_index(found[top]).items()}
    value = ratio(per_card, by_index(found[bottom]))
    if value is not None:
        yield Comparison(
            workload=top.workload,
            kind=kind,
            numerator=f"{top.device}/{top.leg}",
            denominator=f"{bottom.device}/{bottom.leg}",
            ratio=value,
        )


def published_comparisons(
    run: Run, summaries: Sequence[Summary], ratios: Sequence[Comparison]
) -> tuple[PublishedComparison, ...]:
    """Return each published number beside this machine's as-written leg, in the published unit.

    A number for a GPU stands beside every single card; one with nothing to match has measured None.
    """
    return tuple(
        one
        for workload in run.workloads
        for number in workload.published
        for one in _beside(workload, number, summaries, ratios)
    )


def _beside(
    workload: Workload, number: Published, summaries: Sequence[Summary], ratios: Sequence[Comparison]
) -> Iterator[PublishedComparison]:
    matches = [
        one
        for one in summaries
        if one.workload == workload.name and one.leg == AS_WRITTEN and _same_kind(number.device, one.device)
    ]
    for one in matches:
        measured, label = _in_unit(number.unit, one, ratios)
        yield _published(workload, one.device, number, measured, label)
    if not matches:
        yield _published(workload, number.device, number, None, "not measured in this run")


def _same_kind(published: str, device: str) -> bool:
    return device == CPU if published == CPU else len(gpu_names(device)) == 1


def _in_unit(unit: str, summary: Summary, ratios: Sequence[Comparison]) -> tuple[Estimate | None, str]:
    if unit == "s":
        how = "projected from the steady speed" if summary.training_projected else "trained to the end"
        return summary.training_s, f"{summary.device} as written, {how}, cold start excluded"
    if unit == "samples/s":
        return summary.throughput, f"{summary.device} as written, steady state"
    if unit == "ratio":
        wanted = f"{summary.device}/{AS_WRITTEN}"
        found = [
            one.ratio for one in ratios
            if one.workload == summary.workload and one.kind == GPU_OVER_CPU and one.numerator == wanted
        ]  # fmt: skip
        return (found[0] if found else None), f"{summary.device} over cpu, as written, steady speed"
    return None, f"nothing measured in {unit}"


def _published(
    workload: Workload, device: str, number: Published, measured: Estimate | None, label: str
) -> PublishedComparison:
    return PublishedComparison(
        workload=workload.name,
        device=device,
        source=number.source,
        system=number.system,
        value=number.value,
        unit=number.unit,
        note=number.note,
        measured=measured,
        measured_label=label,
    )
