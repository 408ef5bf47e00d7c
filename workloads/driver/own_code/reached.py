"""What the Python functions of an input may use: objects in their variables, attributes and closures."""

from __future__ import annotations

import argparse
import datetime
import dis
import functools
import inspect
import logging
import numbers
import operator
import re
import sys
import sysconfig
import threading
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import packages_distributions
from pathlib import PurePath
from typing import Any

import numpy as np

_MOST = 20_000
_LIBRARIES = tuple({sysconfig.get_path(each) for each in ("stdlib", "purelib", "platlib")})
# Classes of libraries whose objects hold what is the script's; those that only have attributes.
NAMESPACES = (types.SimpleNamespace, argparse.Namespace)
_HOLDING = {
    "EagerFunc", "SimpleNamespace", "Namespace", "UserDict", "UserList", "ChainMap", "WeakSet", "WeakValueDictionary",
    "WeakKeyDictionary",
}  # fmt: skip
# What nobody changes, or what is looked at by itself.
PLAIN = (
    numbers.Number, str, bytes, range, slice, datetime.date, datetime.time, datetime.timedelta, type(None), type(...),
)  # fmt: skip
_FIXED = (
    types.ModuleType, type, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.CodeType,
    types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType, types.GetSetDescriptorType,
    types.MemberDescriptorType, types.ClassMethodDescriptorType, types.GenericAlias, property, staticmethod,
    classmethod, re.Pattern, PurePath, weakref.ref, weakref.ProxyType, np.ufunc, type(np.sort), np.dtype,
    logging.Logger, logging.Handler, threading.Thread,
)  # fmt: skip
_CHANGING = (dict, list, set, deque, np.ndarray)
# Class -> whether its objects may change.
_kinds: dict[type, bool] = {}
# Packages in whose objects nothing changes for a script: locks, caches of abstract classes, formats, HDF5.
_FIXED_IN = {"workloads", "_thread", "_multiprocessing", "_abc", "_ctypes", "_struct", "_json", "h5py"}
# Those whose variables, layers and pipelines are looked at otherwise.
_TENSORFLOW = {"tensorflow", "keras"}
# Things that have code, and where; and those that run, and where their frame is.
_CODE = {
    types.FunctionType: "__code__", types.GeneratorType: "gi_code", types.CoroutineType: "cr_code",
    types.AsyncGeneratorType: "ag_code",
}  # fmt: skip
_FRAMES = {
    types.GeneratorType: "gi_frame",
    types.CoroutineType: "cr_frame",
    types.AsyncGeneratorType: "ag_frame",
}
# Names by which code may use any of its global variables.
_ANY = {"globals", "eval", "exec"}
# Methods that are called by no name.
_UNNAMED = {name for name in dir(operator) if name.endswith("__")} - {"__doc__", "__name__"} | {
    "__iter__", "__next__", "__len__", "__enter__", "__exit__", "__str__", "__repr__", "__format__", "__bool__",
    "__hash__", "__int__", "__float__", "__getattr__", "__getattribute__", "__array__",
}  # fmt: skip


def reached(*starts: Any) -> Iterator[Any]:
    """Yield objects and what they may use, as far as it is found without running them.

    Functions lead to their closures, defaults and the variables and attributes of modules that they name. Objects of
    the script's classes lead to the attributes and methods that a function named; libraries are not looked into.
    """
    waiting, seen, named = [*starts], dict[int, Any](), {*_UNNAMED}
    owners, asked = list[Any](), set[str]()
    while waiting and len(seen) < _MOST:
        thing = waiting.pop()
        if id(thing) not in seen:
            seen[id(thing)] = thing
            yield thing
            named |= _attributes(thing)
            waiting += _next(thing)
            if is_of_script(thing):
                owners.append(thing)
                waiting += [_attribute(thing, name) for name in asked]
        if not waiting and (new := named - asked):
            asked |= new
            waiting += [_attribute(each, name) for each in owners for name in new]


def _attribute(owner: Any, name: str) -> Any:
    """Return an attribute as it is stored, without what its class makes of it; None if there is none."""
    found = inspect.getattr_static(owner, name, None)
    return getattr(owner, name, None) if isinstance(found, types.MemberDescriptorType) else found


def _next(thing: Any) -> Iterable[Any]:
    for kinds, inside in _INSIDE.items():
        if isinstance(thing, kinds):
            return inside(thing)
    kind = type(thing).__name__
    if kind == "_GeneratorState":  # and not its iterators, which end
        return (thing._generator,)
    held = vars(thing).values() if kind in _HOLDING else ()
    classes = (type(thing),) if is_of_script(thing) else ()
    return (inspect.getattr_static(thing, "__wrapped__", None), *held, *classes)


def _of_function(function: types.FunctionType) -> Iterable[Any]:
    return [
        *(value for _, value in closure_of(function)),
        *(function.__defaults__ or ()),
        *(function.__kwdefaults__ or {}).values(),
        *(_named(function.__code__, function.__globals__) if is_own(function.__module__) else ()),
    ]


def _of_running(thing: Any) -> Iterable[Any]:
    frame = _frame_of(thing)
    if frame is None:
        return ()
    named = _named(frame.f_code, frame.f_globals) if is_own_frame(frame) else ()
    return [*frame.f_locals.values(), *named]


def _frame_of(thing: Any) -> types.FrameType | None:
    """Return the frame of a generator or coroutine; None if it has ended."""
    found: types.FrameType | None = getattr(thing, _FRAMES[type(thing)])
    return found


def is_own_frame(frame: types.FrameType) -> bool:
    """Return whether a frame is of code of the script."""
    return is_own(str(frame.f_globals.get("__name__")))


def _of_builtin(method: Any) -> Iterable[Any]:
    return () if isinstance(method.__self__, types.ModuleType) else (method.__self__,)


# Classes -> what is inside of their objects.
_INSIDE: Mapping[Any, Callable[[Any], Iterable[Any]]] = {
    dict: lambda each: [*each.keys(), *each.values()],
    (list, tuple, set, frozenset, deque): list,
    functools.partial: lambda each: (each.func, *each.args, *each.keywords.values()),
    types.MethodType: lambda each: (each.__self__, each.__func__),
    types.FunctionType: _of_function,
    tuple(_FRAMES): _of_running,
    (types.BuiltinFunctionType, types.MethodWrapperType): _of_builtin,
    (staticmethod, classmethod): lambda each: (each.__func__,),
    property: lambda each: (each.fget,),
    weakref.ref: lambda each: (each(),),
    np.ndarray: lambda each: (each.base, *(each.flat if each.dtype == object else ())),
    memoryview: lambda each: (each.obj,),
}


def _attributes(thing: Any) -> set[str]:
    """Return the names of attributes that code of the script uses, also as text; none of other things."""
    code = code_of(thing.__func__ if isinstance(thing, types.MethodType) else thing)
    if code is None or str(code.co_filename).startswith(_LIBRARIES):
        return set()
    texts = {each for part in codes(code) for each in part.co_consts if isinstance(each, str)}
    return texts.union(*(part.co_names for part in codes(code)))


def code_of(thing: Any) -> types.CodeType | None:
    """Return the code of a function, a generator or a coroutine; None of other things."""
    return getattr(thing, _CODE[type(thing)]) if type(thing) in _CODE else None


def own_code_of(thing: Any) -> types.CodeType | None:
    """Return the code of a function, or of a generator or coroutine that has not ended, of the script; else None."""
    if isinstance(thing, types.FunctionType):
        return thing.__code__ if is_own(thing.__module__) else None
    frame = _frame_of(thing) if type(thing) in _FRAMES else None
    return frame.f_code if frame and is_own_frame(frame) else None


def is_of_script(thing: Any) -> bool:
    """Return whether a thing is an object of a class of the script."""
    return not isinstance(thing, type) and is_own(type(thing).__module__)


def may_change(thing: Any) -> bool:
    """Return whether a thing is one that code may change, and not one of TensorFlow, whose state is seen otherwise."""
    kind = type(thing)  # as some objects of libraries do not tell it
    if kind not in _kinds:
        _kinds[kind] = is_own(kind.__module__) or issubclass(kind, _CHANGING) or not _is_fixed(kind)
    return _kinds[kind]


def _is_fixed(kind: type) -> bool:
    known = issubclass(kind, (*PLAIN, *_FIXED)) or package_of(kind) in _FIXED_IN
    return (known and kind is not threading.local) or is_of_tensorflow(kind)


def is_of_tensorflow(kind: type) -> bool:
    """Return whether a class, which is not the script's, is one of TensorFlow or Keras, or derives from one."""
    return not is_own(kind.__module__) and any(package_of(each) in _TENSORFLOW for each in kind.__mro__)


def package_of(kind: type) -> str:
    """Return the package, the first part of its module's name, of a class."""
    return str(kind.__module__).partition(".")[0]


@functools.cache
def is_own(module: str) -> bool:
    """Return whether a module is the script or one next to it, and not of a library or the driver."""
    file = getattr(sys.modules.get(module), "__file__", None)
    package = module.partition(".")[0]
    known = package == "workloads" or package in _installed() or str(file).startswith(_LIBRARIES)
    return module == "__main__" or (bool(file) and not known)


@functools.cache
def _installed() -> frozenset[str]:
    """Return the names of installed packages, wherever they are."""
    return frozenset(packages_distributions())


def closure_of(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the variables of other functions that a function uses, with their names."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:  # it is not filled yet
            continue


def codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield code and the code of the functions that are defined in it."""
    yield code
    for inner in filter(inspect.iscode, code.co_consts):
        yield from codes(inner)


def names_any(code: types.CodeType) -> bool:
    """Return whether code may use any of its global variables, also those that it does not name."""
    return not _ANY.isdisjoint(name for part in codes(code) for name in part.co_names)


def _named(code: types.CodeType, variables: dict[str, Any]) -> Iterator[Any]:
    """Yield what code names: global variables, all of them if it may name any, and attributes of modules among them."""
    if names_any(code):
        yield from variables.values()
    last: Any = None
    for step in (step for part in codes(code) for step in dis.get_instructions(part)):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            last = variables.get(str(step.argval))
        elif step.opname in ("LOAD_ATTR", "LOAD_METHOD") and isinstance(last, (types.ModuleType, type)):
            last = getattr(last, str(step.argval), None)
        elif step.opname == "IMPORT_NAME":
            last = sys.modules.get(str(step.argval))
        elif step.opname.startswith("LOAD_"):
            last = None
        else:
            continue
        yield last
