"""Ratios between what was measured."""

from __future__ import annotations

from collections.abc import Iterator

from harness.analysis.align import gpu_names
from harness.analysis.measures import Measures, by_index
from harness.analysis.ratios import ratio
from harness.model.analysis import Comparison, Key, RatioKind
from workloads.protocol import BASELINE, MODEL_ONLY, TUNED, changes_baseline

CPU = "cpu"


def comparisons(measured: Measures) -> tuple[Comparison, ...]:
    """Return every ratio that the measures allow: GPU over CPU, tuned and optimizations over baseline, scaling."""
    return tuple(
        Comparison(kind=kind, ratio=value, **top._asdict())
        for top, kind, bottom, gpus in _pairs(measured)
        if bottom in measured
        and (
            value := ratio(
                {index: speed / gpus for index, speed in by_index(measured[top]).items()},
                by_index(measured[bottom]),
            )
        )
    )


def _pairs(measured: Measures) -> Iterator[tuple[Key, RatioKind, Key, int]]:
    """Yield what is over what, and by how many GPUs the speed of the former is divided."""
    for key in measured:
        if key.device != CPU and key.variant in (BASELINE, MODEL_ONLY, TUNED):
            yield key, RatioKind.GPU_OVER_CPU, key._replace(device=CPU), 1
        if key.variant == TUNED or changes_baseline(key.variant):
            yield key, RatioKind.OVER_BASELINE, key._replace(variant=BASELINE), 1
        gpus = gpu_names(key.device)
        if len(gpus) > 1 and key.variant in (BASELINE, TUNED):
            yield key, RatioKind.SCALING, key._replace(device=gpus[0]), len(gpus)
