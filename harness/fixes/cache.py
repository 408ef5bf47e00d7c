"""The remedy `cache`.

What lies before the cache runs in the first epoch only.

Safety: what differs from epoch to epoch stays behind the cache, so training sees the same distribution: what the
functions of a pipeline use is followed through functions and variables, and what is imported from elsewhere counts as
random, like variables and models that are trained. So does what may change between epochs: objects that callbacks
change too, a file whose name is not made of an element, and any file if a callback writes one. Before it is measured,
the container reads what lies before the cache several times, and leaves the remedy out if passes differ
(`workloads/driver/fitting/cache.py`) or do not fit into half of the free memory.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Sequence

from harness.fixes.changes import fits_again, may_change
from harness.fixes.rule import Rule, Safety
from harness.fixes.source import Source, calls_in, name_of
from workloads.protocol import Aim, Edit

_ENDS = {"shuffle", "repeat", "batch", "padded_batch", "prefetch", "cache"}
# Steps that call a function of the script, their first argument.
_CALLING = {"map", "filter", "interleave", "flat_map", "from_generator"}
# In what differs from epoch to epoch; callbacks may change variables.
_RANDOM = (
    "random", "augment", "uniform", "dropout", "noise", "jitter", "shuffle", "variable", "timestamp", "mixup", "augmix",
    "cutmix", "solariz", "rvs(",
)  # fmt: skip
# What a script uses of a model that it trains.
_TRAINING = {"fit", "train_on_batch", "train_step", "trainable_variables", "trainable_weights"}
# Packages of which a function is random only if its name says so.
_KNOWN = {"tensorflow", "keras", "numpy", "scipy", "PIL", "cv2", *sys.stdlib_module_names}


def edits(source: Source) -> Sequence[Edit]:
    """Return an edit that caches behind the first maps of a pipeline that are not random; [] if it has a cache."""
    if any(source.calls("cache", "snapshot")):
        return []
    if fits_again(source) and any(source.calls("from_generator", "py_function", "numpy_function")):
        return []  # Python may give something else to each training
    chains = [(call, _steps(source, call)) for call in source.feeding_steps("map")]
    for call, steps in sorted(chains, key=lambda each: -len(each[1])):
        names = [name_of(step) for step in steps]
        given = [value for step in steps for value in _given(step)]
        functions = source.used(*given)
        joined = any(
            name_of(each) == "shuffle" for step in steps for arg in step.args for each in calls_in(arg)
        )
        if joined or _ENDS & set(names) or _random(source, functions) or may_change(source, functions, steps):
            continue
        return [source.insert_after(call, ".cache()")]
    return []


def _given(step: ast.Call) -> list[ast.expr]:
    """Return the arguments of a step that may be a function of the script."""
    keywords = [
        each.value for each in step.keywords if not each.arg or "func" in each.arg or each.arg == "generator"
    ]
    return [*(step.args[:1] if name_of(step) in _CALLING else []), *keywords]


def _steps(source: Source, call: ast.Call) -> list[ast.Call]:
    """Return the calls of a chain from its end to its source, through variables."""
    result: list[ast.Call] = []
    node: ast.expr | None = call
    while isinstance(node, ast.Call) and node not in result:
        result.append(node)
        function = source.function(name_of(node))
        if isinstance(node.func, ast.Attribute):
            node = node.func.value
        else:
            node = next(iter(source.returned(function)), None) if function else None
        if isinstance(node, ast.Name):
            node = source.value_at(node)
    return result


def _random(source: Source, functions: Sequence[ast.AST]) -> bool:
    """Return whether functions, with what they use, seem to be random or are not in the script."""
    trained = {
        node.value.id
        for node in source.nodes
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.attr in _TRAINING
    }
    for node in functions:
        if any(word in source.words(node).casefold() for word in _RANDOM):
            return True
        free = source.free(node)
        if any(source.module(name) in ("random", "numpy.random") for name in free):
            return True
        called = {_base(each.func) for each in calls_in(node)} | {_base(node)}
        for name in free:
            known = source.meanings(name) or hasattr(builtins, name) or source.package(name) in _KNOWN
            if name in trained or (name in called and not known):
                return True
    return False


def _base(node: ast.AST) -> str:
    """Return the name before the first dot; "" without."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


RULE = Rule(
    name="cache",
    summary="Read and decode each sample once: cache in memory, before shuffling and random changes",
    aim=Aim.INPUT,
    safety=Safety.ALIKE,
    edits=edits,
)
