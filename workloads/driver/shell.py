"""The names that IPython gives to what it runs. Without a notebook around it, they do nothing."""

from __future__ import annotations

import ast
import sys
from contextlib import suppress
from typing import Any

from workloads.cells import CELL, SHOW, cells
from workloads.driver.sites import catches

# Cell magics whose code runs.
_BODIES = ("time", "timeit", "capture", "prun")


class Shell:
    """What get_ipython returns: its methods do nothing, but for the code of cells that are timed."""

    def __call__(self, *args: Any, **named: Any) -> Shell:
        """Do nothing."""
        return self

    def __getattr__(self, name: str) -> Shell:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def run_cell_magic(self, name: str, line: str, cell: str) -> None:
        """Run the code of a cell that is timed."""
        if name in _BODIES:
            code = compile(cell, "<cell>", "exec", dont_inherit=True)
            exec(code, sys.modules["__main__"].__dict__)  # noqa: S102 - the script's own code

    def getoutput(self, *args: Any, **named: Any) -> list[str]:
        """Return what a program printed that did not run."""
        return []


def display(*args: Any, **named: Any) -> None:
    """Do nothing."""


_out: dict[int, Any] = {}


def show(value: Any, number: int) -> Any:
    """Keep what a cell shows as `_`, unless the script has a `_` of its own, and in `Out`."""
    names = sys.modules["__main__"].__dict__
    if value is None:
        return None
    if any(names.get("_", "") is each for each in ("", *_out.values())):
        names.update({"_": value, "__": names.get("_"), "___": names.get("__")})
    names[f"_{number}"] = _out[number] = value
    return value


_SHELL = Shell()
_NAME = "get_ipython"
# The error of a name that is not there, by its classes.
_UNKNOWN = {"NameError", "Exception", "BaseException"}
NAMES = {_NAME: lambda: _SHELL, "display": display, SHOW: show}


def names_for(text: str) -> dict[str, Any]:
    """Return the names for a script that was a notebook; a plain one may ask whether it has them."""
    inputs = ["", *("\n".join(lines) for mark, lines in cells(text) if mark.startswith(CELL))]
    shown = {"_": "", "__": "", "___": "", "In": inputs, "Out": _out} if inputs[1:] else {}
    return {} if not inputs[1:] and _asks(text) else {**NAMES, **shown}


def _asks(text: str) -> bool:
    """Return whether a script asks whether it is a notebook, by an error that it handles or the name as a text."""
    with suppress(SyntaxError):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Constant) and node.value == _NAME:
                return True
            if isinstance(node, ast.Name) and node.id == _NAME and catches(text, node.lineno, _UNKNOWN):
                return True
    return False
