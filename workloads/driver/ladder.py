"""What both kinds of framework do with a script's variants: measure each, name what differs, apply remedies.

Standard library only: the remedies' edits were made on the host (harness/fixes).
"""

from __future__ import annotations

import gc
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any

from workloads.driver.script import named
from workloads.protocol import LONGEST_MESSAGE, Change, Edit, EventWriter, Fix, Spec, shortened
from workloads.variants import BASELINE

_ARGUMENT = re.compile(r"\w+=.+")


def applied(text: str, fixes: Iterable[Fix]) -> str:
    """Return a script with the edits of several remedies.

    Raises:
        ValueError: two remedies change the same place differently.
    """
    content = text.encode()
    edits = [edit for fix in fixes for edit in fix.edits]
    ordered = sorted(dict.fromkeys(edits), key=lambda edit: (edit.start, edit.end))
    result, done = [], 0
    for before, edit in pairwise([Edit(start=-1, end=-1, text=""), *ordered]):
        if edit.start < done:
            raise ValueError("two remedies change the same place")
        # Arguments of a call that has none.
        comma = ", " if before.start == edit.start and _ARGUMENT.fullmatch(edit.text) else ""
        result += [content[done : edit.start], f"{comma}{edit.text}".encode()]
        done = edit.end
    return b"".join([*result, content[done:]]).decode()


def at_sites(fixes: Mapping[str, Fix], chains: Iterable[Sequence[tuple[int, int]]]) -> Mapping[str, Fix]:
    """Return the remedies with the edits of the calls that were made, and without those that change others only.

    Args:
        chains: of each call of Keras the sites at which it can be changed; the first with edits counts.
    """
    result = {}
    for name, fix in fixes.items():
        there = {edit.site for edit in fix.edits}
        chosen = {(), *(next((site for site in chain if site in there), ()) for chain in chains)}
        if edits := tuple(edit for edit in fix.edits if edit.site in chosen):
            result[name] = replace(fix, edits=edits)
    return result


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """Return what a script chooses differently from the baseline's."""
    return [
        Change(what=name, before=_text(before.get(name)), after=_text(after[name]))
        for name in sorted(after)
        if before.get(name) != after[name] and name not in ("samples_per_epoch", "python_input")
    ]


def _text(value: Any) -> str:
    if value is None:
        return "default"
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


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
    """A variant is not measured because it is not informative here; the message is the reason."""


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
