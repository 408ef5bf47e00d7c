"""Ratios between what was measured."""

from __future__ import annotations

from collections.abc import Iterator

from harness.analysis.align import gpu_names
from harness.analysis.measures import Key, Measures, by_index
from harness.analysis.stats import ratio
from harness.model.analysis import Comparison
from workloads.protocol import BASELINE, MODEL_ONLY, TUNED, changes_baseline

GPU_OVER_CPU = "gpu-over-cpu"
TUNED_OVER_BASELINE = "tuned-over-baseline"
OPTIMIZATION_OVER_BASELINE = "optimization-over-baseline"
# Throughput of n GPUs over n times that of one, 1 when nothing is lost.
SCALING = "scaling"

CPU = "cpu"


def comparisons(found: Measures) -> tuple[Comparison, ...]:
    """Return every ratio that the measures allow: GPU over CPU, tuned and optimizations over baseline, scaling."""
    return tuple(_comparisons(found))


def _comparisons(found: Measures) -> Iterator[Comparison]:
    for key in found:
        if key.device != CPU and key.variant in (BASELINE, MODEL_ONLY, TUNED):
            yield from _ratio(found, GPU_OVER_CPU, key, key._replace(device=CPU))
        if key.variant == TUNED:
            yield from _ratio(found, TUNED_OVER_BASELINE, key, key._replace(variant=BASELINE))
        if changes_baseline(key.variant):
            yield from _ratio(found, OPTIMIZATION_OVER_BASELINE, key, key._replace(variant=BASELINE))
        gpus = gpu_names(key.device)
        if len(gpus) > 1 and key.variant in (BASELINE, TUNED):
            yield from _ratio(found, SCALING, key, key._replace(device=gpus[0]), len(gpus))


def _ratio(found: Measures, kind: str, top: Key, bottom: Key, gpus: int = 1) -> Iterator[Comparison]:
    if bottom not in found:
        return
    per_card = {index: value / gpus for index, value in by_index(found[top]).items()}
    value = ratio(per_card, by_index(found[bottom]))
    if value is not None:
        yield Comparison(
            workload=top.workload,
            kind=kind,
            numerator=f"{top.device}/{top.variant}",
            denominator=f"{bottom.device}/{bottom.variant}",
            ratio=value,
        )
