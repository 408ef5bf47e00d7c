"""Measure variants one after the other, so that none runs on what another has left in buffers or caches."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from workloads.protocol import EventWriter


def measure_each(
    bodies: Mapping[str, Callable[[], None]], *, events: EventWriter, needed: Collection[str]
) -> None:
    """Run every variant's code.

    A variant that fails costs the others nothing: it is left out, and an event says why. Only where one of
    `needed` fails is that, in the end, a failure of the trial.
    """
    failure: Exception | None = None
    for variant, body in bodies.items():
        try:
            body()
        except Exception as error:  # whatever a variant raises
            events.left_out(variant, f"{type(error).__name__}: {error}")
            if variant in needed:
                failure = failure or error
    if failure is not None:
        raise failure
