"""The remedy `parallel-map`.

Without it tf.data calls the function for one sample after the other, on one CPU.

Safety: tf.data keeps the order of samples, so numbers are the same. Random numbers come in another order each time,
also with a seed; two samples at once may rarely draw the same from a random layer of Keras. Functions that count in
objects of the script, or share an open file, which several at once would do wrongly, are called one by one as before.
The container refuses the remedy if an operation of a function writes what others read, if several have one seed, if
Python in it sets the state of a random generator, and if functions in Python give something else at once than one after
the other.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from harness.fixes.changes import keeps_own_state, shares_position
from harness.fixes.rule import Rule, Safety
from harness.fixes.source import Source, argument, name_of
from workloads.protocol import Aim, Edit


def edits(source: Source) -> Sequence[Edit]:
    """Return an edit for each map and interleave that prepares one sample after the other for the training."""
    if _allows_any_order(source) or shares_position(source):
        return []
    return [
        edit
        for call in source.feeding_steps("map", "interleave")
        if _is_one_by_one(argument(call, "num_parallel_calls"))
        and (name_of(call) == "map" or argument(call, "cycle_length") is not None)
        and not _keeps_state(source, source.used(*_functions(call)))
        for edit in source.with_keyword(call, "num_parallel_calls", source.autotune)
    ]


def _is_one_by_one(given: ast.expr | None) -> bool:
    return given is None or (isinstance(given, ast.Constant) and given.value in (None, 1))


def _functions(call: ast.Call) -> list[ast.expr]:
    given = argument(call, "map_func")
    return [] if given is None else [given]


def _allows_any_order(source: Source) -> bool:
    """Return whether the script lets parallel steps of a pipeline give their results in any order."""
    return any(
        (isinstance(node, ast.Attribute) and node.attr in ("deterministic", "experimental_deterministic"))
        or (isinstance(node, ast.keyword) and node.arg == "deterministic")
        for node in source.nodes
    )


def _keeps_state(source: Source, used: Sequence[ast.AST]) -> bool:
    functions = [each for each in used if isinstance(each, (ast.FunctionDef, ast.Lambda))]
    return keeps_own_state(source, functions) or any(_counts(source, each) for each in used)


def _counts(source: Source, node: ast.AST) -> bool:
    """Return whether code sets a value that outlives its call by one that it had before."""
    own = Source.bound(node)
    for each in ast.walk(node):
        match each:
            case (
                ast.Global()
                | ast.Nonlocal()
                | ast.Attribute(ctx=ast.Store())
                | ast.Call(
                    func=ast.Attribute(attr="assign" | "assign_add" | "assign_sub" | "pop" | "popleft")
                )
                | ast.Call(func=ast.Name(id="next"))
            ):
                return True
            case ast.AugAssign(target=ast.Subscript(value=ast.Name(id=name))) if name not in own:
                return True
            case ast.Assign(targets=[ast.Subscript() as target], value=value):
                if source.words(target) in source.words(value):
                    return True
    return False


RULE = Rule(
    name="parallel-map",
    summary="Prepare several samples at once: num_parallel_calls in map and interleave",
    aim=Aim.INPUT,
    safety=Safety.ORDER,
    edits=edits,
)
