"""Remedies as changes to a script's source: one file each, with what, why, when it is safe, and the change.

A change is a set of edits at positions that `ast` gives, so that formatting is kept and the edits of several
remedies can be applied together. `workloads/driver/edits.py` applies them in the container.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.fixes import (
    batch,
    cache,
    callbacks,
    cudnn_kernel,
    eager,
    loader_threads,
    many_steps,
    parallel_map,
    precision,
    prefetch,
    progress_bar,
    steps_per_execution,
    xla,
)
from harness.fixes.rule import Rule
from harness.fixes.source import Source
from workloads.protocol import Fix
from workloads.variants import FIX

# In the order in which they are tried.
_MODULES = (
    eager, parallel_map, prefetch, cache, loader_threads, callbacks, progress_bar,
    cudnn_kernel, steps_per_execution, many_steps, xla, precision, batch,
)  # fmt: skip
REMEDIES: Mapping[str, Rule] = {module.RULE.name: module.RULE for module in _MODULES}


def fixes_for(text: str, device: str) -> Mapping[str, Fix]:
    """Return the remedies that fit a script: variant -> its edits."""
    source = Source(text, device)
    found = {rule: tuple(rule.edits(source)) for rule in REMEDIES.values()}
    return {FIX.of(rule.name): Fix(edits=edits, aim=rule.aim) for rule, edits in found.items() if edits}


def rule_of(variant: str) -> Rule | None:
    """Return the remedy that a variant is; None for others, and for several together."""
    return REMEDIES.get(FIX.argument(variant))
