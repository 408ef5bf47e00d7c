"""Apply the edits of remedies to a script, and name what the variants of a script choose differently.

Standard library only: the remedies' edits were made on the host (harness/fixes).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from workloads.protocol import Change, Edit, Fix

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
        if before.get(name) != after[name]
        and name
        not in ("samples_per_epoch", "python_input", "validates", "prefetches", "quiet", "acts_every")
    ]


def _text(value: Any) -> str:
    if value is None:
        return "default"
    return ("on" if value else "off") if isinstance(value, bool) else str(value)
