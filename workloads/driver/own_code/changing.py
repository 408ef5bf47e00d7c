"""What Python code may change of what other code reads: by its names and its instructions, without running it."""

from __future__ import annotations

import dis
import inspect
import io
import mmap
import os
import pathlib
import random
import re
import shelve
import shutil
import subprocess
import sys
import types
from collections import deque
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import PurePath
from typing import Any

import numpy as np
import tensorflow as tf

from workloads.driver.own_code.reached import (
    NAMESPACES,
    codes,
    is_of_script,
    is_own,
    may_change,
    own_code_of,
    package_of,
    reached,
)

# Names by which a callback reaches its model; by which code changes whatever it likes; variables and tables; and files.
_TO_MODEL = {"model", "_model"}
_TO_ALL = {
    "__dict__", "vars", "getattr", "setattr", "__setattr__", "delattr", "globals", "get_objects", "get_referrers",
    "run_functions_eagerly", "exec", "eval", "methodcaller", "setlocale", "getcontext", "setcontext",
    "fset", "__set__", "enable_lora", "quantize", "add_loss",
}  # fmt: skip
# By which code changes settings of libraries, which steps read in C++ or far below.
_TO_SETTINGS = {
    name
    for module in (tf.config, tf.config.experimental, tf.config.optimizer, tf.config.threading, tf.debugging,
                   tf.summary.experimental, tf.keras.config, tf.keras.mixed_precision, np)
    for name in dir(module)
    if name.startswith(("set_", "enable_", "disable_"))
} | {"set_as_default", "record_if", "seterr", "setbufsize", "errstate"}  # fmt: skip
TO_VARIABLES = {
    "assign", "assign_add", "assign_sub", "insert", "erase", "set_value", "set_weights", "load_weights", "adapt",
    "scatter_update", "scatter_nd_update", "batch_scatter_update", "restore",
}  # fmt: skip
TO_FILES = {
    "open", "write", "write_text", "write_bytes", "write_file", "save", "savetxt", "savez", "savez_compressed",
    "tofile", "dump", "to_csv", "to_json", "to_parquet", "to_pickle", "to_hdf", "imwrite", "imsave", "save_img",
    "GFile", "TFRecordWriter", "rename", "renames", "unlink", "rmtree", "symlink", "symlink_to", "truncate", "touch",
    "memmap", "open_memmap", "writerow", "writerows", "File", "create_dataset", "execute", "system", "popen", "Popen",
    "check_call", "check_output", "urlretrieve", "extractall", "copyfile", "copytree", "copy2", "move", "copyfileobj",
    "hardlink_to", "link_to", "writelines", "writestr", "pwrite", "ZipFile", "TarFile", "make_archive",
    "unpack_archive", "get_file", "executemany", "executescript", "to_feather", "to_sql", "to_excel", "write_table",
    "mimsave", "getoutput", "getstatusoutput", "posix_spawn", "posix_spawnp", "create_subprocess_exec",
    "create_subprocess_shell", "chdir", "fchdir",
}  # fmt: skip
# Functions that do so under names that others have too.
_CHANGING_FILES = (
    os.replace,
    os.remove,
    os.link,
    shutil.copy,
    subprocess.run,
    subprocess.call,
    tf.io.gfile.copy,
    tf.io.gfile.remove,
)
_STREAMS = (sys.__stdout__, sys.__stderr__)
# Packages whose objects may be in files.
_OF_FILES = {"h5py", "zarr", "netCDF4", "tables", "lmdb"}
# What a callback sets of the model for which no step's Python asks.
_OF_LOOP = {"stop_training", "learning_rate"}
# Functions by which code sets the state of random generators that others draw from, and methods of such generators.
_SEEDING = (np.random.seed, np.random.set_state, random.seed, random.setstate, tf.random.set_seed,
            tf.keras.utils.set_random_seed)  # fmt: skip
_SEEDING_METHODS = {"seed", "set_state", "setstate", "bit_generator", "jumped", "advance"}
# Instructions by which code changes what others read: items, of which versions of Python have different ones,
# attributes, variables of its module, and those of a function around it.
_OF_NAMES = re.compile("FAST|NAME|ATTR|GLOBAL|DEREF")
_SETTING_ITEMS = {
    each for each in dis.opmap if each.startswith(("STORE_", "DELETE_")) and not _OF_NAMES.search(each)
}
_SETTING_ATTRIBUTES = {"STORE_ATTR", "DELETE_ATTR"}
_SETTING_VARIABLES = {"STORE_GLOBAL", "DELETE_GLOBAL"}
_SETTING_OUTER = {"STORE_DEREF", "DELETE_DEREF"}
_WRITING_TO = _SETTING_ITEMS | _SETTING_ATTRIBUTES | _SETTING_VARIABLES
# Those that act without a name.
ACTING = {*_WRITING_TO, "BINARY_OP", "RAISE_VARARGS"}
STORING = _WRITING_TO | _SETTING_OUTER
# Instructions that read variables of a module.
_READING_VARIABLES = {"LOAD_GLOBAL", "LOAD_NAME"}
# Instructions that make what is the code's own: collections, and results, such as arrays; workloads/driver/foresight.py
# sees if they are not.
_MAKING = ("BUILD_", "CALL", "BINARY_OP")
# Methods by which code changes what others read, and what they change.
CHANGING_METHODS = {
    "append", "appendleft", "extend", "insert", "add", "update", "setdefault", "pop", "popleft", "popitem", "remove",
    "discard", "clear", "sort", "reverse", "fill", "put", "setattr", "shuffle", "copyto", "set", "rotate",
    "move_to_end", "subtract", "seek", "heappush", "heappop", "heapreplace", "insort", "acquire", "release", "send",
    "put_nowait", "putmask", "place", "partition", "resize", "itemset", "fill_diagonal", "put_along_axis", "nditer",
    "memset", "memmove", "readinto", "pack_into", "recv_into", "setitem", "delitem", "iadd",
    "iconcat", "__setitem__", "__delitem__", "__iadd__", "__ior__",
}  # fmt: skip
# Instructions that load attributes; and those that may be between a method and the call of it.
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
_OF_ARGUMENTS = ("LOAD_CONST", "KW_NAMES", "PUSH_NULL", "PRECALL")
# Things of which only attributes change; those of which items do, also by these operations; and names by which any
# attribute does.
_OWNERS = (types.ModuleType, type, types.FunctionType, *NAMESPACES)
_OF_ARRAYS = {"+=", "-=", "*=", "/=", "//=", "%=", "**=", "@=", "&=", "|=", "^=", "<<=", ">>="}
_CONTAINERS: Mapping[type, set[str]] = {
    dict: {"|="}, list: {"+=", "*="}, deque: {"+=", "*="}, set: {"|=", "&=", "-=", "^="}, np.ndarray: _OF_ARRAYS,
}  # fmt: skip
_GETTING = {"getattr", "hasattr", "vars", "__dict__", "attrgetter"}
_REPLACING = {"__code__", "__defaults__", "__kwdefaults__", "__class__", "__dict__"}
_SETTING = {"setattr", "__setattr__", "delattr", "__dict__", "vars"}


def changes_of(starts: Sequence[Any], read: Iterable[Any], names: set[str], *, model: Any = None) -> str:
    """Return by what Python code may change what other code reads; "" if it may not.

    Args:
        starts: from where the code is reached.
        read: from where the other code is.
        names: that change what is not in Python.
        model: of which the other code reads anything.
    """
    found = {id(each): each for each in reached(*starts)}
    code = [*own_code(found.values())]
    if by_name := _named(code, found, names | _TO_ALL | (set() if model is None else _TO_SETTINGS)):
        return by_name
    if model is None:
        return shared(code, found, read, but=())
    parts = _parts(model)
    by_variable = any(id(each) in found for each in parts)
    if by_variable or _TO_MODEL & names_in(found.values()):
        # What it names of the model's own methods must change nothing.
        more = [each for each in own_code(reached(*starts, *parts)) if each not in code]
        if any(step.opname in STORING for part in more for step in dis.get_instructions(part)):
            return "a method of the model"
        if foreign := next(filter(None, (_changes_others(each, by_variable) for each in code)), ""):
            return foreign
    return shared(code, found, read, but=parts)


def changes_files(starts: Sequence[Any]) -> str:
    """Return by what Python code may change files; "" if it may not."""
    found = {id(each): each for each in reached(*starts)}
    return _named([*own_code(found.values())], found, TO_FILES)


def _named(code: Sequence[types.CodeType], found: Mapping[int, Any], names: set[str]) -> str:
    """Return which of some names code has, or that it may change files if these names do."""
    if both := sorted(names & {name for part in code for name in _named_elsewhere(part)}):
        return both[0]
    return "files" if names & TO_FILES and _to_files(code, found.values()) else ""


def _to_files(code: Sequence[types.CodeType], found: Iterable[Any]) -> bool:
    """Return whether code changes files by names that have other meanings too, with what it reaches."""
    replaces = any("replace" in part.co_names for part in code)
    sets = any(_sets_items(part) or any("=" in op for op in _operations(part)) for part in code)
    return any(
        any(thing is each for each in _CHANGING_FILES)
        or (replaces and _is_path(thing))
        or (sets and _is_in_file(thing))
        or _is_open(thing)
        for thing in found
    )


def _is_open(thing: Any) -> bool:
    """Return whether a thing is a file that is open for writing, and none of the standard streams."""
    if not isinstance(thing, io.IOBase) or any(thing is each for each in _STREAMS):
        return False
    with suppress(ValueError):  # it is closed
        return thing.writable()
    return False


def _is_path(thing: Any) -> bool:
    """Return whether a thing is a path of pathlib, or what makes one."""
    return (
        thing is pathlib
        or isinstance(thing, PurePath)
        or (isinstance(thing, type) and issubclass(thing, PurePath))
    )


def shared(
    code: Sequence[types.CodeType], found: Mapping[int, Any], read: Iterable[Any], but: Sequence[Any]
) -> str:
    """Return what code that changes something shares with other code; "" if it is nothing.

    Args:
        found: what the code reaches, by identity.
        read: from where the other code is reached.
        but: things that do not count.
    """
    others = [*reached(*read)]
    stored = _settings(found.values(), stored=True)
    if stored and (settings := stored & _settings(others, stored=False)):
        return min(name for _, name in settings)
    counts = found.keys() - {id(each) for each in but}
    both_use = [each for each in others if id(each) in counts]
    if bound := _bound_methods(found.values(), both_use):
        return min(bound)
    if not changes_any(code):
        return ""
    changes = _Changes(code)
    if replaced := changes.attributes & _REPLACING:
        return min(replaced)
    functions = [part for each in others if inspect.isfunction(each) for part in codes(each.__code__)]
    names = {name for part in functions for name in _names_read(part)}
    # A module, or a class, of the script may be reached in any way.
    modules = (each for each in found.values() if isinstance(each, types.ModuleType))
    owners = [each for each in (*others, *modules) if isinstance(each, (types.ModuleType, type))]
    attributes = changes.attributes.intersection(
        name for each in filter(_is_of_script, owners) for name in vars(each)
    )
    if both := names & (changes.variables | attributes | changes.environment):
        return min(both)
    return next(filter(None, (changes.of(each, found, names) for each in both_use)), "")


def _bound_methods(found: Iterable[Any], both_use: Sequence[Any]) -> set[str]:
    """Return methods of shared things, such as a dict's update, that are called as they are, by no code of a script."""
    methods = (each for each in found if isinstance(each, types.BuiltinMethodType))
    known = (each for each in methods if each.__name__ in CHANGING_METHODS)
    return {each.__name__ for each in known if any(each.__self__ is thing for thing in both_use)}


def _is_in_file(thing: Any) -> bool:
    """Return whether a thing's items may be in a file."""
    return isinstance(thing, (np.memmap, mmap.mmap, shelve.Shelf)) or package_of(type(thing)) in _OF_FILES


def _names_read(code: types.CodeType) -> Iterator[str]:
    """Yield the names by which code may read something, also as text as in getattr."""
    yield from (*code.co_names, *code.co_freevars)
    if not _GETTING.isdisjoint(code.co_names):
        yield from (each for each in code.co_consts if isinstance(each, str))


def _settings(things: Iterable[Any], *, stored: bool) -> set[tuple[int, str]]:
    """Return the variables of their modules that functions of libraries set (`stored`), or that they name."""
    return {
        (id(each.__globals__), str(step.argval))
        for each in things
        if isinstance(each, types.FunctionType) and not is_own(each.__module__)
        for step in dis.get_instructions(each)
        if step.opname in (_SETTING_VARIABLES if stored else _READING_VARIABLES)
    }


class _Changes:
    """What code may change of what it reaches.

    Attributes:
        variables: which it sets of a module, or of a function around it.
        attributes: which it sets of anything but its first argument.
        environment: {"environ"} if it sets variables of the process.
    """

    def __init__(self, code: Sequence[types.CodeType]) -> None:
        steps = [step for part in code for step in dis.get_instructions(part)]
        self.variables = {
            str(step.argval) for step in steps if step.opname in _SETTING_VARIABLES | _SETTING_OUTER
        }
        self.attributes = {name for part in code for name in _stored(part, own=False)}
        setting = any("environ" in part.co_names and _sets_items(part) for part in code)
        self.environment = {"environ"} if setting else set[str]()
        self._any_attribute = not _SETTING.isdisjoint(name for part in code for name in part.co_names)
        self._items = any(map(_sets_items, code))
        self._in_place = {each for part in code for each in _operations(part)}

    def of(self, thing: Any, found: Mapping[int, Any], names: set[str]) -> str:
        """Return what it may change of a thing that other code reads too, which has these names; "" if nothing."""
        container = isinstance(thing, tuple(_CONTAINERS))
        changed = self._items or any(
            isinstance(thing, kind) and self._in_place & ops for kind, ops in _CONTAINERS.items()
        )
        if isinstance(thing, _OWNERS) or is_of_script(thing):
            own = (method for method in _methods(thing) if id(method) in found)
            set_ = self.attributes.union(*(_stored(method.__code__, own=True) for method in own))
            known = set_ if is_of_script(thing) else set_ & getattr(thing, "__dict__", {}).keys()
            if both := known & names:
                return min(both)
            changed = (changed and container) or (
                self._any_attribute and not isinstance(thing, types.ModuleType)
            )
        else:
            changed = changed or bool(
                self.attributes.intersection(dir(thing)) if container else self.attributes
            )
        return f"a {type(thing).__name__}" if changed and _is_kept(thing) else ""


def _is_of_script(owner: types.ModuleType | type) -> bool:
    return is_own(owner.__name__ if isinstance(owner, types.ModuleType) else owner.__module__)


def _is_kept(thing: Any) -> bool:
    """Return whether a thing may change by itself, and not only what it holds."""
    return may_change(thing) and not isinstance(thing, (tuple, frozenset)) and thing is not os.environ


def _methods(thing: Any) -> Iterator[types.FunctionType]:
    for kind in type(thing).__mro__:
        yield from (each for each in vars(kind).values() if isinstance(each, types.FunctionType))


def _sets_items(code: types.CodeType) -> bool:
    """Return whether code sets items, or calls what does."""
    by_name = any("out" in each for each in code.co_consts if isinstance(each, tuple))
    return by_name or any(
        step.opname in _SETTING_ITEMS or step.argval in CHANGING_METHODS
        for step in dis.get_instructions(code)
    )


def _operations(code: types.CodeType) -> Iterator[str]:
    """Yield the operators of code, such as "+" and "+="."""
    return (step.argrepr for step in dis.get_instructions(code) if step.opname == "BINARY_OP")


def _stored(code: types.CodeType, *, own: bool) -> set[str]:
    """Return the attributes that code sets: of its first argument, or of anything else."""
    first = ("LOAD_FAST", *code.co_varnames[: min(1, code.co_argcount)])
    found = (
        (name, owner[-1:]) for kind, name, owner in _set([*_plain_steps(code)]) if kind in _SETTING_ATTRIBUTES
    )
    return {str(name) for name, last in found if (last == [first]) == own}


def _set(steps: list[tuple[str, Any]]) -> Iterator[tuple[str, Any, list[tuple[str, Any]]]]:
    """Yield what code sets: the instruction, its argument, and the instructions that load what it sets something of."""
    for index, (kind, name) in enumerate(steps):
        if kind not in _SETTING_ATTRIBUTES | _SETTING_ITEMS:
            continue
        keys = 0 if kind in _SETTING_ATTRIBUTES else 2 if kind == "STORE_SLICE" else 1
        owner = steps[:index]
        if owner[-1:] and owner[-1][0] == "SWAP":  # as in a.b += c, which copies a, and its keys
            last = max(at for at, (each, _) in enumerate(owner) if each == "COPY")
            owner = owner[: last + 1 - int(owner[last][1])]
        if keys and owner[-1:] and owner[-1][0] == "BUILD_SLICE":
            keys += int(owner[-1][1])
        yield kind, name, owner[: len(owner) - keys]


def changes_any(code: Iterable[types.CodeType]) -> bool:
    """Return whether code changes anything at all that others may read."""
    return any(
        _sets_items(part) or any(step.opname in STORING for step in dis.get_instructions(part))
        for part in code
    )


def sets_seeds(starts: Iterable[Any]) -> bool:
    """Return whether Python code sets the state of a random generator that outlives its call."""
    found = [*reached(*starts)]
    kinds = (random.Random, np.random.RandomState, np.random.Generator)
    kept = any(isinstance(each, kinds) for each in found) and bool(_SEEDING_METHODS & names_in(found))
    return kept or any(thing is each for thing in found for each in _SEEDING)


def own_code(things: Iterable[Any]) -> Iterator[types.CodeType]:
    """Yield the code of the script's functions and generators among things, and of what is defined in it."""
    for code in filter(None, map(own_code_of, things)):
        yield from codes(code)


def names_in(things: Iterable[Any]) -> set[str]:
    """Return the names that the script's functions among things use."""
    return {name for part in own_code(things) for name in part.co_names}


def used_of(names: set[str], things: Iterable[Any]) -> set[str]:
    """Return which attributes of these names the script's functions among things use.

    Not those that only have Keras make its functions anew: a call of `make_train_function`, `train_function = None`,
    and both in one line.
    """
    return {name for code in own_code(things) for name in _used_of(names, [*_plain_steps(code)])}


def _used_of(names: set[str], steps: Sequence[tuple[str, Any]]) -> Iterator[str]:
    making = {name for name in names if name.startswith("make_")}
    for index, (kind, name) in enumerate(steps):
        if isinstance(name, str) and name in names:
            if kind == "STORE_ATTR" and name not in making:
                owner = next(at for at in range(index - 1, -1, -1) if steps[at][0] not in _ATTRIBUTES)
                value = steps[max(owner - 1, 0)]
                loaded = (at for kind, at in reversed(steps[:owner]) if kind in _ATTRIBUTES)
                if value == ("LOAD_CONST", None) or (
                    value[0].startswith("CALL") and next(loaded, "") in making
                ):
                    continue
            if kind in _ATTRIBUTES and name in making:
                called = (kind for kind, _ in steps[index + 1 :] if kind not in _OF_ARGUMENTS)
                if next(called, "").startswith("CALL"):
                    continue
            yield name


def _parts(model: Any) -> list[Any]:
    return [model, *model._flatten_layers()]


def _named_elsewhere(code: types.CodeType) -> Iterator[str]:
    """Yield the names that code uses, but for those of attributes of its model."""
    chain = list[str]()
    for kind, name in _plain_steps(code):
        chain = [*chain, str(name)] if kind in _ATTRIBUTES else []
        if (kind.startswith("LOAD_") and _TO_MODEL.isdisjoint(chain)) or kind in STORING:
            yield str(name)


def _changes_others(code: types.CodeType, by_variable: bool) -> str:
    """Return what code changes; "" if it is only attributes of its first argument, or collections by their names.

    Args:
        by_variable: a variable that it uses may be part of the model.
    """
    steps = [*_plain_steps(code)]
    own = code.co_varnames[: min(1, code.co_argcount)]
    stored = [(before, name) for (before, _), (kind, name) in pairwise(steps) if kind == "STORE_FAST"]
    made = {name for before, name in stored if before.startswith(_MAKING)}
    made -= {name for before, name in stored if not before.startswith(_MAKING)}
    for kind, name, owner in _set(steps):
        of_own = owner[-1:] == [("LOAD_FAST", *own)]
        if kind in _SETTING_ATTRIBUTES and not (name in _OF_LOOP or of_own):
            return str(name)
        if kind in _SETTING_ITEMS and not _is_owned(owner, own, made, by_variable):
            return "an item"
    for index, (kind, name) in enumerate(steps):
        if kind in _ATTRIBUTES and name in CHANGING_METHODS:
            before = steps[:index]
            if before and before[-1][0] == "BINARY_SUBSCR":
                before = before[:-2]
            if not _is_owned(before, own, made, by_variable):
                return str(name)
    return ""


def _is_owned(
    steps: Sequence[tuple[str, Any]], own: Sequence[str], made: Container[str], by_variable: bool
) -> bool:
    """Return whether the last instructions load an attribute of the first argument, or a collection by its name.

    Args:
        own: the name of the first argument.
        made: names of collections that the code makes.
    """
    match steps:
        case [*_, ("LOAD_FAST", first), ("LOAD_ATTR", name)] if name not in _TO_MODEL:
            return first in own
        case [*_, ("LOAD_FAST", name)]:
            return name in made
        case [*_, ("LOAD_GLOBAL" | "LOAD_NAME" | "LOAD_DEREF", _)]:
            return not by_variable  # others may share it, which is looked at for all
    return False


def _plain_steps(code: types.CodeType) -> Iterator[tuple[str, Any]]:
    """Yield the instructions of code with their arguments, those that do two things as two."""
    for step in dis.get_instructions(code):
        if isinstance(step.argval, tuple) and step.opname.count("_FAST") == 2:
            yield from zip(re.findall("(?:LOAD|STORE)_FAST", step.opname), step.argval, strict=True)
        elif step.opname not in ("CACHE", "PRECALL", "RESUME"):
            yield step.opname.replace("LOAD_FAST_CHECK", "LOAD_FAST"), step.argval
