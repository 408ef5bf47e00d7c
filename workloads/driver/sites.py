"""Where the script calls Keras: remedies change these calls, and no others of the same name.

A site is the line and the column (in bytes) at which a call ends, as in Python's syntax trees: no two calls end there.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import linecache
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

from workloads.cells import as_cells, place

Site = tuple[int, int]
# What the names of scratch folders begin with; see workloads/driver/script.py.
SCRATCH = "script-"
# What ends a program.
_METHODS = ("fit", "predict", "evaluate", "compile")
# Lines of the user's script, where it was changed.
_written: list[str] = []
_compiled: WeakKeyDictionary[Any, tuple[Site, ...]] = WeakKeyDictionary()


def calling(model: Any) -> tuple[Site, ...]:
    """Return the sites of the current call of a method of `model`, innermost first.

    They are several if a method of its class hands any arguments on to the method of Keras.
    """
    result: list[Site] = []
    for frame in _frames():
        site = _site(frame)
        if site is None:
            break
        result.append(site)
        code = frame.f_code
        own = (
            code.co_name in _METHODS and code.co_argcount and frame.f_locals.get(code.co_varnames[0]) is model
        )
        if not (own and code.co_flags & inspect.CO_VARKEYWORDS):
            break
    return tuple(result)


def caller() -> str:
    """Return the place of the line of the script, or of a module beside it, that is being executed; "" elsewhere."""
    frame = next(_frames(beside=True), None)
    return where(frame.f_code.co_filename, frame.f_lineno) if frame else ""


def called_in_module() -> bool:
    """Return whether a module beside the script, which it has called, is being executed."""
    frame = next(_frames(beside=True), None)
    return frame is not None and frame is not next(_frames(), None)


def is_caught(error: BaseException) -> bool:
    """Return whether the script catches an error, by its class, of what is being executed."""
    classes = {each.__name__ for each in type(error).__mro__}
    return any(
        catches("".join(linecache.getlines(frame.f_code.co_filename)), frame.f_lineno, classes)
        for frame in _frames(beside=True)
    )


def catches(text: str, line: int, classes: set[str]) -> bool:
    """Return whether a line of a script is in a `try` for one of these classes, or in a cell that may raise errors."""
    with suppress(SyntaxError):
        for node in ast.walk(as_cells(ast.parse(text), text)):
            if isinstance(node, ast.Try) and node.body[0].lineno <= line <= (node.body[-1].end_lineno or 0):
                handled = [ast.unparse(each.type) if each.type else None for each in node.handlers]
                if any(each is None or classes.intersection(re.findall(r"\w+", each)) for each in handled):
                    return True
    return False


def remember_compile(model: Any) -> None:
    """Remember where the script compiles a model."""
    _compiled[model] = calling(model)


def compiling(model: Any) -> tuple[Site, ...]:
    """Return the sites of the call that compiled a model last, innermost first; () if the script did not."""
    return _compiled.get(model, ())


def where(filename: str, line: int) -> str:
    """Return the place of a line of a script that runs, as its user knows it."""
    text = "".join(linecache.getlines(filename))
    lines = text.splitlines()
    if _written and lines != _written and filename == getattr(sys.modules["__main__"], "__file__", ""):
        line, text = _line_as_written(lines, line), "\n".join(_written)
    return place(Path(filename).name, text, line)


def changed_from(text: str) -> None:
    """Remember the user's script of which another is run, for the places in it."""
    _written[:] = text.splitlines()


def _line_as_written(lines: list[str], line: int) -> int:
    """Return which line of the user's a line is; of one that is not theirs, that which follows."""
    matching = difflib.SequenceMatcher(None, _written, lines)
    for _, start, end, first, last in matching.get_opcodes():
        if first < line <= last:
            return min(start + line - first, max(end, start + 1))
    return line


def _frames(*, beside: bool = False) -> Iterator[FrameType]:
    """Yield the frames of the script that runs, innermost first; those of modules beside it too if `beside`."""
    script = getattr(sys.modules["__main__"], "__file__", "")
    folders = Path(script).parents
    # All that lies beside a script of a package is in its scratch folder.
    top = next((each for each in folders if each.name.startswith(SCRATCH)), Path(script).parent)
    folder = f"{top}{os.sep}"
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        name = frame.f_code.co_filename
        if name == script or (beside and script and name.startswith(folder)):
            yield frame
        frame = frame.f_back


def _site(frame: FrameType) -> Site | None:
    code = frame.f_code
    if hasattr(code, "co_positions"):
        _, line, _, column = next(islice(code.co_positions(), frame.f_lasti // 2, None))
        return None if line is None or column is None else (line, column)
    # Python 3.10 knows the line only.
    tree = ast.parse("".join(linecache.getlines(code.co_filename)))
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and getattr(node.func, "attr", "") in _METHODS
        and node.lineno <= frame.f_lineno <= (node.end_lineno or node.lineno)
    ]
    inner = max(calls, key=lambda node: node.lineno, default=None)
    return (inner.end_lineno or 0, inner.end_col_offset or 0) if inner else None
