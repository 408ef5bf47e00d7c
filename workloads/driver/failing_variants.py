"""Measure variants one after the other; one that fails is left out, and the others still run."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence

from workloads.protocol import BASELINE, EventWriter


def measure_each(variants: Sequence[str], measure: Callable[[str], None], events: EventWriter) -> None:
    """Measure every variant.

    A failed variant is recorded as left out with its error, and the others still run. The trial fails in the
    end if its baseline failed, or any variant if it has no baseline.
    """
    failure: Exception | None = None
    for variant in variants:
        try:
            measure(variant)
        except Exception as error:  # variants can raise anything
            events.left_out(variant, f"{type(error).__name__}: {error}")
            if variant == BASELINE or BASELINE not in variants:
                failure = failure or error
        # Iterators of a variant take up to a minute to end: not in the windows of the next one.
        gc.collect()
    if failure is not None:
        raise failure
