"""The remedy `prefetch`.

Without it Keras waits for each batch to be made before its step can begin.

Safety: the same batches in the same order.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from harness.fixes.changes import fits_again, runs_once
from harness.fixes.rule import Rule, Safety
from harness.fixes.source import Source, argument, calls_in, input_of, name_of
from workloads.protocol import Aim, Edit


def edits(source: Source) -> Sequence[Edit]:
    """Return an edit for each dataset that Keras gets without prefetching."""
    if (
        fits_again(source)
        and any(argument(fit, "steps_per_epoch") for fit in source.fits())
        and any(source.calls("from_generator", "py_function", "numpy_function"))
    ):
        return []  # what Python draws ahead at the end of a training is missing in the next
    return [
        edit
        for call in source.measured()
        if (given := input_of(call)) is not None
        and source.is_dataset(given)
        and not _prefetches(source, given)
        and (runs_once(source, call) or _is_made_as_dataset(source, call, given))
        and not _is_given_others(source, call, given)
        for edit in source.at(call, [source.insert_after(given, f".prefetch({source.autotune})")])
    ]


def _is_made_as_dataset(source: Source, fit: ast.Call, given: ast.expr) -> bool:
    """Return whether an input is a dataset by all that the script says about it, and not by its name only."""
    if not isinstance(given, ast.Name):
        return True
    within = [each for each in source.functions() if fit in calls_in(each)]
    if any(given.id == each.arg for function in within for each in function.args.args):
        return True  # what its calls give is looked at
    meanings = source.meanings(given.id)
    return bool(meanings) and all(isinstance(each, ast.Call) and source.is_dataset(each) for each in meanings)


def _is_given_others(source: Source, fit: ast.Call, given: ast.expr) -> bool:
    """Return whether an input may be no dataset at times: each of several in a loop, or a function's argument."""
    if _is_one_of_several(source, given):
        return True
    for function in source.functions():
        names = [each.arg for each in function.args.args if each.arg not in ("self", "cls")]
        if isinstance(given, ast.Name) and given.id in names and fit in calls_in(function):
            calls = list(source.calls(function.name))
            place = names.index(given.id)
            found = [
                next((each.value for each in call.keywords if each.arg == given.id), None)
                or next(iter(call.args[place : place + 1]), None)
                for call in calls
            ]
            datasets = all(each is not None and source.is_dataset(each) for each in found)
            several = len(calls) > 1 or any(each and _is_one_of_several(source, each) for each in found)
            return several and not datasets
    return False


def _is_one_of_several(source: Source, given: ast.expr) -> bool:
    """Return whether an expression is a variable that a loop or a comprehension sets."""
    loops = [each for each in source.nodes if isinstance(each, (ast.For, ast.comprehension))]
    return isinstance(given, ast.Name) and any(given.id in Source.bound(each.target) for each in loops)


def _prefetches(source: Source, node: ast.expr) -> bool:
    if isinstance(node, ast.Name):
        value = source.value_of(node.id)
        return value is not None and not isinstance(value, ast.Name) and _prefetches(source, value)
    if not isinstance(node, ast.Call):
        return False
    if name_of(node) == "prefetch":
        return True
    function = source.function(name_of(node))
    returned = source.returned(function) if function else []
    return any(not isinstance(value, ast.Name) and _prefetches(source, value) for value in returned)


RULE = Rule(
    name="prefetch",
    summary="Prepare the next batch while this one is computed: prefetch at the end of the pipeline",
    aim=Aim.INPUT,
    safety=Safety.SAME,
    edits=edits,
)
