"""Evaluate declarations from syntax trees without running code.

Supported are literals, the types of the protocol, and names assigned to literals at the top level of the same file
or of a module of `workloads` from which the name is imported.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from harness.untrusted import sanitized

_PACKAGE = "workloads"
# Syntax tree nodes in one declaration; characters in a text or values in a tuple.
MAX_NODES = 100_000
MAX_TEXT = 10_000


def parse_file(path: Path) -> ast.Module:
    """Return a file's syntax tree, cached by content; callers must not modify it."""
    return _tree(path.read_bytes(), str(path))


@lru_cache(maxsize=128)
def _tree(content: bytes, name: str) -> ast.Module:
    return ast.parse(content, filename=name)


class Evaluator:
    """Evaluates expressions of one module.

    Args:
        tree: the module.
        folder: folder of the package `workloads`.
        types: types that a declaration may construct, by name.
    """

    def __init__(self, tree: ast.Module, folder: Path, types: Mapping[str, Any]) -> None:
        self._tree = tree
        self._folder = folder
        self._types = types
        self._resolving: set[str] = set()
        self._nodes = 0

    def value(self, node: ast.expr) -> Any:
        """Return the value of an expression; lists become tuples.

        Raises:
            ValueError, TypeError: not a literal, or invalid arguments; the message has the line number.
            RecursionError: the expression is nested too deeply.
        """
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise ValueError(f"line {node.lineno}: the declaration is too large")
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[], keywords=keywords):
                if name not in self._types:
                    raise ValueError(
                        f"line {node.lineno}: {name}(...) is not one of {', '.join(self._types)}"
                    )
                return self._types[name](**self._arguments(keywords))
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return tuple(self.value(part) for part in parts)
            case ast.Dict(keys=keys, values=values):
                return self._dictionary(keys, values)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                total = self.value(left) + self.value(right)
                if isinstance(total, (str, tuple)) and len(total) > MAX_TEXT:
                    raise ValueError(f"line {node.lineno}: the declaration is too large")
                return total
            case ast.Name(id=name):
                return self._named(name, node)
            case _:
                try:
                    return sanitized(ast.literal_eval(node), MAX_TEXT)
                except ValueError as error:
                    text = f"line {node.lineno}: `{ast.unparse(node)}` is not a literal"
                    raise ValueError(text) from error

    def _arguments(self, keywords: list[ast.keyword]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for keyword in keywords:
            result |= {keyword.arg: self.value(keyword.value)} if keyword.arg else self.value(keyword.value)
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
        if name in self._resolving:
            raise ValueError(f"line {node.lineno}: `{name}` refers to itself")
        self._resolving.add(name)
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
            self._resolving.discard(name)

    def _imported(self, module: str, alias: ast.alias, node: ast.expr) -> Any:
        package, _, rest = module.partition(".")
        path = self._folder / f"{rest}.py"
        if package != _PACKAGE or not rest.isidentifier() or not path.is_file():
            raise ValueError(
                f"line {node.lineno}: `{alias.name}` is imported from {module}; only modules of workloads are supported"
            )
        imported = Evaluator(parse_file(path), self._folder, self._types)
        return imported.value(ast.Name(id=alias.name, lineno=node.lineno))
