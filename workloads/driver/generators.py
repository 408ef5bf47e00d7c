"""Generators that begin anew: measuring reads an input for longer than the script does. Standard library only."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Iterator
from types import FunctionType, GeneratorType
from typing import Any


def renewed(given: GeneratorType[Any, Any, Any]) -> Iterator[Any]:
    """Yield what a generator yields and, when it has ended, what its function yields when it is called again.

    The function is called with the same arguments. It ends where that yields nothing, as where they are iterators, and
    where the function cannot be found: that of a generator that has begun, or of a generator expression.
    """
    call = _call_of(given)
    yield from given
    while call is not None:
        function, positional, by_name = call
        ended = True
        for each in function(*positional, **by_name):
            ended = False
            yield each
        if ended:
            return


def _call_of(given: GeneratorType[Any, Any, Any]) -> tuple[FunctionType, list[Any], dict[str, Any]] | None:
    """Return the function that made a generator, and what it was called with; None if that is not known."""
    if inspect.getgeneratorstate(given) != inspect.GEN_CREATED or given.gi_frame is None:
        return None
    code, values = given.gi_code, dict(given.gi_frame.f_locals)
    functions = [
        each for each in gc.get_referrers(code) if isinstance(each, FunctionType) and each.__code__ is code
    ]
    # A function that is defined several times has other values from around it each time.
    function = next((each for each in functions if _sees(each, values)), None)
    if function is None:
        return None
    count, only = code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames
    positional = [values[name] for name in names[:count]]
    by_name = {name: values[name] for name in names[count : count + only]}
    further = count + only
    if code.co_flags & inspect.CO_VARARGS:
        positional += values[names[further]]
        further += 1
    if code.co_flags & inspect.CO_VARKEYWORDS:
        by_name |= values[names[further]]
    return function, positional, by_name


def _sees(function: FunctionType, values: dict[str, Any]) -> bool:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return all(name in values and cell.cell_contents is values[name] for name, cell in cells)
