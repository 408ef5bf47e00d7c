"""What both kinds of trial do with a script's variants: measure each, name what differs, apply remedies.

Standard library only: the remedies' edits were made on the host (harness/fixes).
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from workloads.driver.script import named
from workloads.protocol import BASELINE, FIX_PREFIX, WORTH, Change, Edit, EventWriter, Fix

_ARGUMENT = re.compile(r"\w+=.+")
# Two ways to the same end.
_EITHER = {f"{FIX_PREFIX}steps-per-execution", f"{FIX_PREFIX}many-steps"}


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


def candidates(fixes: Mapping[str, Fix], sample_ns: Mapping[str, float]) -> list[str]:
    """Return the remedies that gained when measured alone, largest gain first.

    Args:
        sample_ns: variant -> measured time of a sample.
    """
    base = sample_ns.get(BASELINE, 0.0)
    # A larger batch changes how fast the model learns, so it is shown alone and not part of tuned.
    gained = [
        name for name, fix in fixes.items()
        if fix.answers != "batch" and sample_ns.get(name) and base >= WORTH * sample_ns[name]
    ]  # fmt: skip
    return sorted(gained, key=lambda name: sample_ns[name])


def joins(name: str, kept: Sequence[str]) -> bool:
    """Return whether a remedy can be added to others."""
    return not (name in _EITHER and _EITHER & set(kept))


def together(names: Sequence[str]) -> str:
    """Return the variant with several remedies."""
    return FIX_PREFIX + "+".join(name.removeprefix(FIX_PREFIX) for name in names)


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """Return what a script chooses differently from the baseline's."""
    return [
        Change(what=name, before=_text(before.get(name)), after=_text(after[name]))
        for name in sorted(after)
        if before.get(name) != after[name] and name != "samples_per_epoch"
    ]


def _text(value: Any) -> str:
    if value is None:
        return "default"
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


class Needless(Exception):  # noqa: N818 - not an error
    """A variant is not measured because it is not informative here; the message is the reason."""


def measure_each(variants: Sequence[str], measure: Callable[[str], None], events: EventWriter) -> None:
    """Measure every variant that `measure` does not raise Needless for.

    A failed variant is recorded as left out with its error, and the others still run. The trial fails in the
    end if its baseline failed, or any variant if it has no baseline.
    """
    failure: Exception | None = None
    for variant in variants:
        try:
            measure(variant)
        except Needless as reason:
            events.needless(variant, str(reason))
            continue
        except Exception as error:  # variants can raise anything
            events.left_out(variant, named(error))
            if variant == BASELINE or BASELINE not in variants:
                failure = failure or error
        # Iterators of a variant take up to a minute to end: not in the windows of the next one. Takes up to a second.
        gc.collect()
    if failure is not None:
        raise failure
