"""What the callbacks of a call do: around each batch, and between epochs."""

from __future__ import annotations

import dis
import functools
import inspect
import itertools
import re
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf

from workloads.driver.call import Call
from workloads.driver.own_code.changing import ACTING, used_of
from workloads.driver.own_code.reached import codes, is_own, reached
from workloads.protocol import LOOPS

_BATCH_HOOKS = (
    "on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end", "on_test_batch_begin",
    "on_test_batch_end", "on_predict_batch_begin", "on_predict_batch_end",
)  # fmt: skip
# Callbacks of Keras that do around batches what is the same if it is done less often.
_SHOWING = ("History", "ProgbarLogger", "CSVLogger")
# What a callback is given to act once an epoch, and not every so many batches.
_OFTEN = ("save_freq", "update_freq")
# Callbacks of Keras that run functions of the script.
_RUNNING = ("LambdaCallback", "LearningRateScheduler")


def around_batches(call: Call) -> str:
    """Return why callbacks must run around each batch; "" if they need not."""
    if found := _wrapped(call):
        return f"{found}, which Keras calls once for each call of a step."
    for callback in call.callbacks:
        often = next((getattr(callback, name) for name in _OFTEN if hasattr(callback, name)), None)
        name = type(callback).__name__
        if getattr(callback, "_should_trace", False):
            return f"The callback {name} counts batches to profile some of them."
        kind = _of_keras_around_batches(callback)
        if kind in _SHOWING or (kind and often == "epoch"):
            continue
        if any(_acts(callback, hook) for hook in _batch_hooks(call)):
            return f"The callback {name} acts around each batch."
    return ""


def _of_keras_around_batches(callback: Any) -> str:
    """Return the name of the class of Keras whose methods alone a callback runs around batches; "" if there is none."""
    own = {*vars(callback)}
    for each in type(callback).__mro__:
        if _is_keras_module(each.__module__):
            return each.__name__ if own.isdisjoint(_BATCH_HOOKS) else ""
        # What Keras' methods call in turn begins with one underscore.
        if any(re.match("_[^_]|__getattr", name) for name in vars(each)):
            return ""
        own |= vars(each).keys()
    return ""


def acts_every(call: Call) -> int:
    """Return the most batches between two times that a callback of Keras' saves or logs; 0 if that is once an epoch."""
    given = [getattr(each, name, None) for each in call.callbacks for name in _OFTEN]
    return max((each for each in given if isinstance(each, int)), default=0)


def reads_param(call: Call, key: str) -> str:
    """Return the name of a callback of the script that may read one of its params; "" if none does."""
    own = (type(callback) for callback in call.callbacks if not is_keras(callback))
    return next((each.__name__ for each in own if any(_may_read(code, key) for code in _codes(each))), "")


def _may_read(code: types.CodeType, key: str) -> bool:
    """Return whether code uses params otherwise than by the name of another one."""
    found = [*dis.get_instructions(code)]
    return any(
        each.argval == "params"
        and not (name.opname == "LOAD_CONST" and name.argval != key and "SUBSCR" in use.opname)
        for each, name, use in itertools.zip_longest(found, found[1:], found[2:], fillvalue=found[-1])
    )


def own_callbacks(call: Call) -> list[Any]:
    """Return the callbacks of a call that run code of the script."""
    return [each for each in call.callbacks if not is_keras(each) or type(each).__name__ in _RUNNING]


def methods_of(kind: type) -> dict[str, list[types.FunctionType]]:
    """Return the methods of a class that are the script's, but for the one that makes an object."""
    found: dict[str, list[types.FunctionType]] = {}
    for each in kind.__mro__:
        for name, value in vars(each).items() if is_own(each.__module__) else ():
            if inspect.isfunction(value) and name != "__init__":
                found.setdefault(name, []).append(value)
    return found


def functions_of_class(kind: type) -> list[types.FunctionType]:
    """Return the functions of `methods_of`, also those that others of the same name override."""
    return [each for found in methods_of(kind).values() for each in found]


def is_keras(thing: Any) -> bool:
    """Return whether an object's class is one of Keras, and has not been given methods of its own."""
    hooks = any(
        name.startswith("on_") and callable(value) for name, value in getattr(thing, "__dict__", {}).items()
    )
    return _is_keras_module(type(thing).__module__) and not hooks


def _wrapped(call: Call) -> str:
    """Return that the script replaces or uses a function of Keras' that runs around steps; "" if it does not."""
    model = call.model
    owners = [vars(model), *(vars(each) for each in type(model).__mro__)]
    for name in sorted(LOOPS):
        if any(is_own_function(place[name]) for place in owners if name in place):
            return f"The script has put code of its own around {name}"
    if name := (
        _replaced(_kinds_around(call))
        or _put_into_modules_of(type(model).__mro__)
        or (bar_of_script() if call.arguments.get("verbose", 1) else "")
    ):
        return f"The script has put code of its own around {name}"
    own = own_callbacks(call)
    functions = [each for callback in own for each in functions_of_class(type(callback))]
    kept = [each for callback in own for each in vars(callback).values() if inspect.isroutine(each)]
    name = min(used_of(LOOPS, reached(*functions, *kept)), default="")
    return f"A callback of the script uses {name}" if name else ""


def _kinds_around(call: Call) -> Iterator[type]:
    """Yield Keras' classes of callbacks."""
    for each in (tf.keras.callbacks.CallbackList, *{type(each) for each in call.callbacks if is_keras(each)}):
        yield from (kind for kind in each.__mro__ if _is_keras_module(kind.__module__))
    yield tf.keras.callbacks.Callback


def bar_of_script() -> str:
    """Return the name of what the script replaces of Keras' progress bar; "" if it replaces nothing."""
    return _replaced((tf.keras.callbacks.ProgbarLogger, tf.keras.utils.Progbar))


def _replaced(kinds: Iterable[type]) -> str:
    """Return the name of what the script replaces of classes around batches, or of what they use; "" if nothing."""
    kinds = list(kinds)
    found = (name for kind in kinds for name, value in vars(kind).items() if is_own_function(value))
    name = next((name for name in found if name in _BATCH_HOOKS or not name.startswith("on_")), "")
    return name or _put_into_modules_of(kinds)


def _put_into_modules_of(kinds: Iterable[type]) -> str:
    """Return the name of a function or class of the script in the modules of Keras' classes; "" if there is none.

    Also in those modules of Keras that they use.
    """
    modules = {
        kind.__module__: sys.modules[kind.__module__] for kind in kinds if _is_keras_module(kind.__module__)
    }
    for each in [*modules.values()]:
        modules |= {
            value.__name__: value
            for value in vars(each).values()
            if inspect.ismodule(value) and _is_keras_module(value.__name__)
        }
    named = (pair for each in modules.values() for pair in vars(each).items())
    return next((name for name, value in named if _is_own_code(value)), "")


def _is_own_code(value: Any) -> bool:
    # Libraries that are not installed may be stand-ins, which raise errors when they are asked for anything.
    code = isinstance(value, (type, functools.partial)) or inspect.isroutine(value)
    return is_own(type(value).__module__) or (code and is_own_function(value))


def _is_keras_module(name: str) -> bool:
    """Return whether a module is one of Keras'."""
    return name.partition(".")[0] == "keras"


def is_own_function(thing: Any) -> bool:
    """Return whether a thing is a function of the script, also one that TensorFlow has compiled."""
    thing = getattr(thing, "python_function", thing)
    thing = getattr(thing, "__func__", getattr(thing, "func", thing))
    return callable(thing) and is_own(str(getattr(thing, "__module__", "")))


def _acts(callback: Any, hook: str) -> bool:
    """Return whether a method of a callback does more than return, or call what it overrides, which does no more."""
    owners = [vars(callback), *(vars(each) for each in type(callback).__mro__ if each is not object)]
    if not any(hook in owner for owner in owners) and any("__getattr__" in owner for owner in owners):
        return True
    if any("__getattribute__" in owner for owner in owners):
        return True
    for function in (owner[hook] for owner in owners if hook in owner):
        if function is getattr(tf.keras.callbacks.Callback, hook):
            return False
        code = getattr(function, "__code__", None)
        if code is None or not {*code.co_names, *code.co_freevars} <= {"super", "__class__", hook}:
            return True
        if not ACTING.isdisjoint(each.opname for each in dis.get_instructions(code)):
            return True
        if "super" not in code.co_names:
            return False
    return False


def _batch_hooks(call: Call) -> Iterator[str]:
    """Yield the names of the methods that Keras calls around the batches of a call."""
    if not call.trains:
        kinds = {"test"} if call.evaluates else {"predict"}
    else:
        kinds = {"train", "test"} if call.validates else {"train"}
    for hook in _BATCH_HOOKS:
        kind = hook.split("_")[1]
        if kind in kinds or (kind == "batch" and call.trains):
            yield hook


def _codes(owner: type) -> Iterator[types.CodeType]:
    """Yield the code of methods of a class, its own and those it has from others that are not Keras'."""
    functions = [
        function
        for each in owner.__mro__
        if each.__module__.partition(".")[0] != "keras"
        for function in vars(each).values()
        if inspect.isfunction(function)
    ]
    for function in functions:
        yield from codes(function.__code__)
