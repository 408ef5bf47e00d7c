"""What the Python functions of an input may use: objects in their variables, attributes and closures."""

from __future__ import annotations

import dis
import functools
import inspect
import sys
import sysconfig
import types
from collections.abc import Iterable, Iterator
from typing import Any

_MOST = 20_000
_LIBRARIES = tuple({sysconfig.get_path(each) for each in ("stdlib", "purelib", "platlib")})
# Classes of libraries whose objects hold what is the script's.
_HOLDING = {"_GeneratorState", "EagerFunc", "SimpleNamespace"}
_LOADING = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR", "LOAD_METHOD", "LOAD_DEREF", "LOAD_FAST"}


def reached(*starts: Any) -> Iterator[Any]:
    """Yield objects and what they may use, as far as it is found without running them.

    Functions lead to their closures, defaults and the variables and attributes of modules that they name, objects of
    the script's classes to their attributes and methods; libraries are not looked into.
    """
    waiting, seen = [*starts], dict[int, Any]()
    while waiting and len(seen) < _MOST:
        thing = waiting.pop()
        if id(thing) in seen:
            continue
        seen[id(thing)] = thing
        yield thing
        waiting += _next(thing)


def _next(thing: Any) -> Iterable[Any]:
    match thing:
        case str() | bytes() | int() | float() | None | types.ModuleType():
            return ()
        case dict():
            return [*thing.keys(), *thing.values()]
        case list() | tuple() | set() | frozenset():
            return thing
        case functools.partial():
            return (thing.func, *thing.args, *thing.keywords.values())
        case types.MethodType():
            return (thing.__self__, thing.__func__)
        case types.FunctionType():
            return [*_closure(thing), *(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values(),
                    *(_named(thing.__code__, thing.__globals__) if is_own(thing.__module__) else ())]  # fmt: skip
        case types.GeneratorType(gi_frame=frame) if frame:
            named = _named(thing.gi_code, frame.f_globals) if is_own(frame.f_globals["__name__"]) else ()
            return [*frame.f_locals.values(), *named]
        case type():
            return vars(thing).values() if is_own(thing.__module__) else ()
        case staticmethod() | classmethod() | property():
            return (getattr(thing, "__func__", None), getattr(thing, "fget", None))
    return _of_object(thing)


def _of_object(thing: Any) -> Iterable[Any]:
    kind = type(thing)
    held = getattr(thing, "__wrapped__", None)
    if kind.__name__ in _HOLDING:
        return (held, *getattr(thing, "__dict__", {}).values())
    own = [each for each in kind.__mro__ if is_own(each.__module__)]
    return (held, *own, *getattr(thing, "__dict__", {}).values()) if own else (held,)


def is_own(module: str) -> bool:
    """Return whether a module is the script or one next to it, and not of a library."""
    file = getattr(sys.modules.get(module), "__file__", None)
    return module == "__main__" or (bool(file) and not str(file).startswith(_LIBRARIES))


def _closure(function: types.FunctionType) -> Iterator[Any]:
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # it is not filled yet
            continue


def _named(code: types.CodeType, variables: dict[str, Any]) -> Iterator[Any]:
    """Yield what code names: global variables, and attributes of modules among them."""
    waiting = [code]
    while waiting:
        part = waiting.pop()
        waiting += filter(inspect.iscode, part.co_consts)
        last: Any = None
        for step in dis.get_instructions(part):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                last = variables.get(str(step.argval))
            elif step.opname in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(last, (types.ModuleType, type)):
                last = getattr(last, str(step.argval), None)
            elif step.opname == "IMPORT_NAME":
                last = sys.modules.get(str(step.argval))
            elif step.opname in _LOADING:
                last = None
            if last is not None:
                yield last
