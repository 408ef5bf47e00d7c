"""Read and decode each sample once: cache in memory, before shuffling and random changes.

Why: what lies before the cache runs in the first epoch only.
Safety: random changes of samples stay behind the cache, so training sees the same distribution. Tried only if the
samples of an epoch fit into half of the free memory.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from harness.fixes.source import ALIKE, Source, name_of
from workloads.protocol import Edit

NAME = "cache"
ANSWERS = "cache"
SAFETY = ALIKE
_ENDS = {"shuffle", "repeat", "batch", "padded_batch", "prefetch", "cache"}
_RANDOM = ("random", "augment", "uniform", "dropout", "noise")


def edits(source: Source) -> Sequence[Edit]:
    """Return an edit that caches behind the first maps of a pipeline that are not random; [] if it has a cache."""
    if any(source.calls("cache", "snapshot")):
        return []
    maps = [
        call for call in source.calls("map")
        if isinstance(call.func, ast.Attribute) and source.is_dataset(call.func.value)
    ]  # fmt: skip
    feeding = source.feeding()
    chains = [(call, _steps(source, call)) for call in [each for each in maps if each in feeding] or maps]
    for call, steps in sorted(chains, key=lambda each: -len(each[1])):
        names = [name_of(step) for step in steps]
        if not _ENDS & set(names) and not any(_random(source, step) for step in steps):
            return [source.insert_after(call, ".cache()")]
    return []


def _steps(source: Source, call: ast.Call) -> list[ast.Call]:
    """Return the calls of a chain from its end to its source, through variables."""
    result, node = [], call
    seen: set[int] = set()
    while isinstance(node, ast.Call) and id(node) not in seen:
        seen.add(id(node))
        result.append(node)
        inner = node.func.value if isinstance(node.func, ast.Attribute) else None
        if isinstance(inner, ast.Name):
            inner = source.value_of(inner.id)
        if not isinstance(inner, ast.Call):
            break
        node = inner
    return result


def _random(source: Source, call: ast.Call) -> bool:
    """Return whether a map's function seems to be random, or is not in the script."""
    if name_of(call) != "map" or not call.args:
        return False
    given = call.args[0]
    function = source.function(given.id) if isinstance(given, ast.Name) else given
    text = source.words(function).casefold() if function is not None else "random"
    return any(word in text for word in _RANDOM)
