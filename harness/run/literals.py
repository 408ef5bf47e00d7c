"""Evaluate declarations from syntax trees: literals, names of literals, and the protocol's own types.

Nothing is run. A name may stand for a literal that the same file, or a module of `workloads` that it imports
the name from, assigns to it at its top level.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from harness.untrusted import cleaned

_PACKAGE = "workloads"
# Nodes of a syntax tree in one declaration, and characters of a text or values of a tuple.
MOST_STEPS = 100_000
LONGEST_TEXT = 10_000


def parsed(path: Path) -> ast.Module:
    """Return a file's syntax tree, which nobody may change; one that has not changed is parsed once."""
    return _tree(path.read_bytes(), str(path))


@lru_cache(maxsize=128)
def _tree(content: bytes, name: str) -> ast.Module:
    return ast.parse(content, filename=name)


class Evaluator:
    """Evaluates expressions of one module.

    Args:
        tree: the module.
        folder: where the modules of `workloads` lie.
        types: the types that a declaration may make, by name.
    """

    def __init__(self, tree: ast.Module, folder: Path, types: Mapping[str, Any]) -> None:
        self._tree = tree
        self._folder = folder
        self._types = types
        self._open: set[str] = set()
        self._steps = 0

    def value(self, node: ast.expr) -> Any:
        """Return what `node` stands for; lists become tuples.

        Raises:
            ValueError, TypeError: it is no literal, or arguments do not fit; the message has the line.
            RecursionError: it is nested too deeply.
        """
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise ValueError(f"line {node.lineno}: the declaration is too large")
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[], keywords=words):
                if name not in self._types:
                    raise ValueError(
                        f"line {node.lineno}: {name}(...) is not one of {', '.join(self._types)}"
                    )
                return self._types[name](**self._arguments(words))
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return tuple(self.value(part) for part in parts)
            case ast.Dict(keys=keys, values=values):
                return self._dictionary(keys, values)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                total = self.value(left) + self.value(right)
                if isinstance(total, (str, tuple)) and len(total) > LONGEST_TEXT:
                    raise ValueError(f"line {node.lineno}: the declaration is too large")
                return total
            case ast.Name(id=name):
                return self._named(name, node)
            case _:
                try:
                    return cleaned(ast.literal_eval(node), LONGEST_TEXT)
                except ValueError as error:
                    text = f"line {node.lineno}: `{ast.unparse(node)}` is not a literal"
                    raise ValueError(text) from error

    def _arguments(self, words: list[ast.keyword]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for word in words:
            result |= {word.arg: self.value(word.value)} if word.arg else self.value(word.value)
        return result

    def _dictionary(self, keys: list[ast.expr | None], values: list[ast.expr]) -> dict[Any, Any]:
        result: dict[Any, Any] = {}
        for key, value in zip(keys, values, strict=True):
            if key is None:  # {**other}
                result.update(self.value(value))
            else:
                result[self.value(key)] = self.value(value)
        return result

    def _named(self, name: str, node: ast.expr) -> Any:
        if name in self._open:
            raise ValueError(f"line {node.lineno}: `{name}` is defined by itself")
        self._open.add(name)
        try:
            for statement in self._tree.body:
                match statement:
                    case (
                        ast.Assign(targets=[ast.Name(id=target)], value=value)
                        | ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value)
                    ) if target == name:
                        return self.value(value)
                    case ast.ImportFrom(module=str(module), names=aliases, level=0):
                        for alias in aliases:
                            if (alias.asname or alias.name) == name:
                                return self._imported(module, alias, node)
            raise ValueError(f"line {node.lineno}: `{name}` is not a literal")
        finally:
            self._open.discard(name)

    def _imported(self, module: str, alias: ast.alias, node: ast.expr) -> Any:
        package, _, rest = module.partition(".")
        path = self._folder / f"{rest}.py"
        if package != _PACKAGE or not rest.isidentifier() or not path.is_file():
            raise ValueError(f"line {node.lineno}: `{alias.name}` comes from {module}, which is not read")
        there = Evaluator(parsed(path), self._folder, self._types)
        return there.value(ast.Name(id=alias.name, lineno=node.lineno))
