"""What the script runs beside a part of a training, by which it may change what that part reads."""

from __future__ import annotations

import asyncio
import gc
import inspect
import sched
import signal
import sys
import threading
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures.thread import _WorkItem
from typing import Any

import tensorflow as tf

from workloads.driver.call import Call
from workloads.driver.own_code.callbacks import functions_of_class, own_callbacks
from workloads.driver.own_code.changing import TO_FILES, changes_files, changes_of, own_code, shared
from workloads.driver.own_code.reached import is_own, is_own_frame, own_code_of, reached
from workloads.driver.own_code.step import metrics_of, own_of_step
from workloads.driver.pipelines import datasets_of, python_of

_RUNNING = (types.CoroutineType, types.AsyncGeneratorType)
# Classes of what waits to run -> where its function and the arguments of that are.
_WAITING: Mapping[type, tuple[str, str]] = {
    **dict.fromkeys(_RUNNING, ("", "")),
    asyncio.Handle: ("_callback", "_args"),
    asyncio.TimerHandle: ("_callback", "_args"),
    sched.Event: ("action", "argument"),
    _WorkItem: ("fn", "args"),
}


def changing(call: Call, what: str, read: Sequence[Any], names: set[str], *, step: bool = False) -> str:
    """Return that something of the script may change what a part of a training reads; "" if nothing may.

    Args:
        what: which reads `read`, for the message.
        read: Python functions and objects.
        names: by which code changes what is not in Python: files, variables.
        step: that part is the step, which reads the model and its layers too.
    """
    # Threads of the script run beside the training.
    for each in (*own_callbacks(call), *threading.enumerate()):
        kept = (value for key, value in vars(each).items() if key not in ("_model", "params"))
        starts = [*kept, *functions_of_class(type(each))]
        if found := changes_of(starts, read, names, model=call.model if step else None):
            name = (
                f"thread {each.name}"
                if isinstance(each, threading.Thread)
                else f"callback {type(each).__name__}"
            )
            return f"The {name} may change between epochs {what}: by {found}."
    for metric in metrics_of(call.model):
        if isinstance(metric, tf.keras.metrics.Metric) and is_own(type(metric).reset_state.__module__):
            return f"The metric {type(metric).__name__} may change between epochs {what}: it has reset_state."
    others = "" if step else step_changes(call, what, read, names)
    return others or _changes(what, read, _between(call, read))


def step_changes(call: Call, what: str, read: Sequence[Any], names: set[str]) -> str:
    """Return that a step of the call may change what something reads; "" if it may not; for others see `changing`."""
    if names & TO_FILES and (by_files := changes_files(own_of_step(call))):
        return f"The step may change {what}: by {by_files}."
    return _changes(what, read, [("The step", own_of_step(call, whole=True))])


def _changes(what: str, read: Sequence[Any], others: Iterable[tuple[str, list[Any]]]) -> str:
    for name, starts in others:
        used = {id(each): each for each in reached(*starts)}
        if found := shared([*own_code(used.values())], used, read, but=()):
            return f"{name} may change {what}: by {found}."
    return ""


def _between(call: Call, read: Sequence[Any]) -> Iterator[tuple[str, list[Any]]]:
    """Yield what runs beside a step, with the functions from which its code is reached, but for `read`."""
    for number in signal.valid_signals():
        if inspect.isroutine(handler := signal.getsignal(number)):
            yield f"The handler of {signal.Signals(number).name}", [handler]
    yield "A thread", threads()
    yield "What waits to run in a thread", [*_waiting()]
    left = {id(each) for each in read}
    functions = python_of(datasets_of(call.arguments))
    yield "Python in a pipeline", [each for each in functions if id(each) not in left]


def threads() -> list[Any]:
    """Return the functions of the script that its threads are in, but for the main one and the one that calls this."""
    others = (
        frame
        for thread, frame in sys._current_frames().items()
        if thread not in (threading.get_ident(), threading.main_thread().ident)
    )
    return [function for frame in others for function in _running(frame)]


def _waiting() -> Iterator[Any]:
    """Yield the script's coroutines, and what event loops, schedulers and pools of threads are to call."""
    # There are a million objects: their classes are looked up, not compared.
    for each in [each for each in gc.get_objects() if type(each) in _WAITING]:
        if type(each) in _RUNNING:
            yield from (each,) if own_code_of(each) else ()
        else:
            function, arguments = _WAITING[type(each)]
            yield from (getattr(each, function, None), *(getattr(each, arguments, None) or ()))


def _running(frame: types.FrameType | None) -> Iterator[types.FunctionType]:
    """Yield the functions of the script that a thread is in."""
    while frame:
        code, held = frame.f_code, dict(frame.f_locals)
        if is_own_frame(frame) and held.keys() >= {*code.co_freevars}:
            closure = tuple(types.CellType(held[name]) for name in code.co_freevars)
            yield types.FunctionType(code, frame.f_globals, closure=closure)
        frame = frame.f_back
