"""The names in code to paste: those of a workload's stages, and placeholders that a reader has to replace."""

from __future__ import annotations

import ast
import builtins
import keyword
from collections.abc import Sequence

# A stage of such a name is a method of tf.data, or the copy to the device.
_METHODS = frozenset({"batch", "cache", "copy", "prefetch", "repeat", "shuffle"})
_IMPORTED = frozenset({"np", "tf", "xgboost"})


def stage_functions(stages: Sequence[str]) -> tuple[str, ...]:
    """Return the stages that work on samples, in order: names to call their functions by.

    The first stage is where the samples come from.
    """
    return tuple(
        name
        for name in stages[1:]
        if name not in _METHODS and name.isidentifier() and not keyword.iskeyword(name)
    )


def introduced(code: str, stages: Sequence[str]) -> str:
    """Put a comment before Python code that says which of its names are not given a value there."""
    used = _Names()
    used.visit(ast.parse(code))
    own = [name for name in used.free if name in stages]
    others = [name for name in used.free if name not in stages]
    said = [
        f"{what}: {', '.join(names)}."
        for what, names in (("Stages of this workload", own), ("Placeholders", others))
        if names
    ]
    return f"# {' '.join(said)}\n{code}" if said else code


class _Names(ast.NodeVisitor):
    """Collect the names that code uses before it has given them a value, in order."""

    def __init__(self) -> None:
        self.free: list[str] = []
        self._known = {*_IMPORTED, *dir(builtins)}

    def visit_Name(self, node: ast.Name) -> None:
        """Take a name as known once it has been given a value."""
        if isinstance(node.ctx, ast.Load) and node.id not in self._known:
            self.free.append(node.id)
        self._known.add(node.id)

    def visit_Assign(self, node: ast.Assign) -> None:
        """Look at the value first."""
        self.visit(node.value)
        for target in node.targets:
            self.visit(target)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Know its arguments within it, and it itself from here on."""
        known = {*self._known, node.name}
        self._known |= {argument.arg for argument in node.args.args}
        self.generic_visit(node)
        self._known = {*known, *self.free}
