"""Measure variants one after the other, so that none runs on what another has left in buffers or caches."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workloads.protocol import BASELINE, EventWriter


def measure_each(variants: Sequence[str], measure: Callable[[str], None], events: EventWriter) -> None:
    """Measure every variant.

    A variant that fails is left out, with an event that says why, and the others go on. In the end the trial fails
    if its baseline did, or any variant of a trial without a baseline.
    """
    failure: Exception | None = None
    for variant in variants:
        try:
            measure(variant)
        except Exception as error:  # whatever a variant raises
            events.left_out(variant, f"{type(error).__name__}: {error}")
            if variant == BASELINE or BASELINE not in variants:
                failure = failure or error
    if failure is not None:
        raise failure
