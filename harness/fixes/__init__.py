"""Remedies as changes to a script's source: one file each, with what, why, when it is safe, and the change.

A change is a set of edits at positions that `ast` gives, so that formatting is kept and the edits of several
remedies can be applied together. `workloads/driver/ladder.py` applies them in the container.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Protocol, cast

from harness.fixes import (
    batch,
    batch_before_map,
    cache,
    callbacks,
    cudnn_kernel,
    eager,
    loader_as_dataset,
    loader_threads,
    many_steps,
    parallel_map,
    precision,
    prefetch,
    progress_bar,
    steps_per_execution,
    xla,
)
from harness.fixes.source import Source
from workloads.protocol import Edit, Fix
from workloads.variants import FIX


class _Remedy(Protocol):
    NAME: str
    ANSWERS: str
    SAFETY: str
    edits: Callable[[Source], Sequence[Edit]]


# In the order in which they are tried.
_MODULES: Sequence[ModuleType] = (
    eager, parallel_map, batch_before_map, prefetch, cache, loader_threads, loader_as_dataset, callbacks, progress_bar,
    cudnn_kernel, steps_per_execution, many_steps, xla, precision, batch,
)  # fmt: skip
REMEDIES: Mapping[str, _Remedy] = {
    remedy.NAME: remedy for remedy in (cast(_Remedy, module) for module in _MODULES)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """What a report says of a remedy: its first sentence, and when it is safe."""

    text: str
    safety: str


def fixes_for(text: str, device: str) -> Mapping[str, Fix]:
    """Return the remedies that fit a script: variant -> its edits."""
    source = Source(text, device)
    found = {name: tuple(remedy.edits(source)) for name, remedy in REMEDIES.items()}
    return {
        FIX.of(name): Fix(edits=edits, answers=REMEDIES[name].ANSWERS)
        for name, edits in found.items()
        if edits
    }


def note(variant: str) -> Note | None:
    """Return what to say of a variant that is a remedy; None for others."""
    remedy = REMEDIES.get(FIX.argument(variant))
    if remedy is None:
        return None
    first = (cast(ModuleType, remedy).__doc__ or "").split("\n")[0].rstrip(".")
    return Note(text=first, safety=remedy.SAFETY)
