"""The remedy `loader-threads`.

Keras calls a loader in one thread by default; reading and decoding release Python's lock. A loader that has workers
gets twice as many.

Safety: the same batches; random changes of samples are drawn in another order. Not offered where functions share an
open file or a cursor, whose position they would move under each other. The container loads some batches in two
orders and at once, and refuses the remedy if they differ, or if the loader sets the state of a random generator, as
those do that change an image and its mask alike.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from harness.fixes.changes import callbacks_are_of_keras, fits_again, keeps_own_state, shares_position
from harness.fixes.rule import Rule, Safety
from harness.fixes.source import Source, input_of, name_of
from workloads.protocol import Aim, Edit

# Run before and between epochs, in one thread.
_BETWEEN = ("__init__", "__len__", "on_epoch_begin", "on_epoch_end")
_LOADERS = {"flow", "flow_from_directory", "flow_from_dataframe"}


def edits(source: Source) -> Sequence[Edit]:
    """Return an edit for each fit on a PyDataset: its workers are set just before."""
    if shares_position(source):
        return []
    fresh = next(
        each for each in ("loader", "batches", *map("loader{}".format, range(99))) if not source.binds(each)
    )
    if fits_again(source) and not all(callbacks_are_of_keras(source, fit) for fit in source.fits()):
        return []  # callbacks of another training may change a loader that loads ahead
    classes = {
        node.name
        for node in source.nodes
        if isinstance(node, ast.ClassDef)
        and not keeps_own_state(
            source, [each for each in node.body if getattr(each, "name", "") not in _BETWEEN]
        )
        and any(source.words(base).endswith(("PyDataset", "Sequence")) for base in node.bases)
    }
    has_workers = re.search(r"\bworkers\b", source.text) is not None
    result: list[Edit] = []
    for call in source.measured():
        given = input_of(call)
        made = source.value_of(given.id) if isinstance(given, ast.Name) else given
        if given is None or not isinstance(made, ast.Call) or name_of(made) not in classes | _LOADERS:
            continue
        name = given.id if isinstance(given, ast.Name) else fresh
        assigned = [] if isinstance(given, ast.Name) else [f"{fresh} = {source.words(given)}"]
        values = f"max(4, 2 * {name}.workers), max(20, {name}.max_queue_size)" if has_workers else "4, 20"
        edit = source.statements_before(
            call, [*assigned, f"{name}.workers, {name}.max_queue_size = {values}"]
        )
        if edit is not None:
            used = [] if isinstance(given, ast.Name) else [source.replace(given, name)]
            result += source.at(call, [edit, *used])
    return result


RULE = Rule(
    name="loader-threads",
    summary="Load batches in several threads: workers of a PyDataset",
    aim=Aim.LOADER,
    safety=Safety.ALIKE,
    edits=edits,
)
