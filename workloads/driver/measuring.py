"""Measure variants one after another in this process, and report what could not be measured. Standard library only."""

from __future__ import annotations

import gc
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from workloads.driver.script import named
from workloads.protocol import LONGEST_MESSAGE, EventWriter, Spec, shortened
from workloads.variants import BASELINE


def brief(spec: Spec) -> Spec:
    """Return a spec with the windows and the warm-up of the breakdown for all variants."""
    return replace(
        spec,
        window_s=spec.analysis_window_s or spec.window_s,
        windows=spec.analysis_windows or spec.windows,
        warmup_s=spec.analysis_warmup_s or spec.warmup_s,
        variant_s=spec.analysis_variant_s or spec.variant_s,
    )


class Needless(Exception):  # noqa: N818 - not an error
    """A variant is not measured because it would tell nothing here; the message is the reason."""


def measure_each(variants: Sequence[str], measure: Callable[[str], None], events: EventWriter) -> None:
    """Measure every variant that `measure` does not raise Needless for, in this process.

    A failed variant is left out with its error, and the others still run. The trial has failed if its baseline has, or
    any variant if it has no baseline; see the error event.
    """
    for variant in variants:
        events.write("reading", variant=variant)
        try:
            measure(variant)
        except Needless as reason:
            events.needless(variant, str(reason))
            continue
        except Exception as error:  # variants can raise anything
            events.left_out(variant, named(error))
            if BASELINE not in events.planned:
                report(events, error)
        # Iterators of a variant take up to a minute to end: not in the windows of the next one. Takes up to a second.
        gc.collect()


def report(events: EventWriter, error: BaseException) -> None:
    """Write an error event, and the traceback to stderr (the container's log)."""
    message = shortened(str(error) or type(error).__name__, LONGEST_MESSAGE)
    events.write("error", type=type(error).__name__, message=message)
    with suppress(OSError, ValueError):  # scripts may close it
        sys.stderr.write("".join(traceback.format_exception(error)))
