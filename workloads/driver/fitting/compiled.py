"""Whether `compiled` fits a call."""

from __future__ import annotations

import dis
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import pairwise, takewhile
from typing import Any

import numpy as np
import tensorflow as tf

from workloads.driver.call import Call
from workloads.driver.fitting.operations import traced
from workloads.driver.fitting.reading import clock_of, part_of_training, python_of_input
from workloads.driver.own_code.beside import changing
from workloads.driver.own_code.changing import changes_any, names_in, own_code, shared
from workloads.driver.own_code.lasting import Watch
from workloads.driver.own_code.reached import reached
from workloads.driver.own_code.step import own_of_step, parts_of, step_of, steps_of

# What is otherwise where a step is compiled.
_EAGER = {
    "executing_eagerly", "executing_eagerly_outside_functions", "inside_function", "init_scope", "EagerTensor",
    "SymbolicTensor", "is_symbolic_tensor", "get_static_value", "constant_value", "suppress",
}  # fmt: skip
# Errors that a step has compiled as it has them eagerly; of all others, it may have some only one way.
_ALIKE = {"KeyError", "ValueError", "ImportError", "ModuleNotFoundError", "StopIteration"}
# What tells of the machine or the process.
_MACHINE = {
    "getloadavg", "getrusage", "active_count", "cpu_percent", "virtual_memory", "memory_info", "disk_usage",
    "get_memory_info", "get_memory_usage", "get_traced_memory",
}  # fmt: skip
# By which code reads files, or looks whether they are there.
_LOOKING = {
    "open", "read_text", "read_bytes", "exists", "lexists", "isfile", "isdir", "is_file", "is_dir", "stat", "getmtime",
    "getsize", "listdir", "scandir", "iterdir", "glob", "iglob",
}  # fmt: skip


def misfit(call: Call) -> str:
    """Return why a step compiled once would not do what the eager one does each time; "" if it would."""
    if not call.model.built:
        traced(call, steps_of(call)[0])  # layers that are made there draw seeds
    python = own_of_step(call)
    found = [*reached(*python)]
    named = names_in(found)
    if name := _asks_whether_eager(found):
        return f"The step's Python names {name}, by which it may tell whether it runs eagerly."
    if _handles(found):
        return "The step's Python handles errors that a compiled step may have and an eager one has not."
    if name := next(filter(None, map(clock_of, found)), ""):
        return f"The step's Python may read the time ({name}), and would read it once."
    kept = (type(each).__name__ for each in found if isinstance(each, tf.keras.callbacks.Callback))
    # What Keras' callbacks set of a model.
    if name := next(kept, "") or min({"history", "stop_training"} & named, default=""):
        return f"The step's Python may read {name}, which training changes, and would read it once."
    if names := _LOOKING & named:
        return f"The step's Python may read files ({min(names)}), and would read them once."
    if names := _MACHINE & named:
        return f"The step's Python may read the state of the machine ({min(names)}), and would read it once."
    if name := _fed(call, python):
        return f"The input may change {name}, which the step's Python reads and would read once."
    step, *others = steps_of(call)
    reason = _same_each_time(call, step, python)
    for step in others if python else ():
        with suppress(Exception):  # it may take other inputs
            reason = reason or _same_each_time(call, step, python)
    return reason or later(call)


def later(call: Call) -> str:
    """Return that something may change between epochs of a call what its step's Python reads; "" if nothing may."""
    return changing(call, "what the step's Python reads", own_of_step(call), set(), step=True)


def observed(call: Call) -> list[Any]:
    """Return the operations and constants of the steps."""
    return [traced(call, step) for step in steps_of(call)[:1]]


def kept(call: Call, kind: str) -> Any:
    """Return the operations and constants of a step of a kind, as Keras would compile it by now; None if it fails.

    Nothing of the input is read, of which a generator would lack it afterwards.
    """
    given = call.arguments["x"]
    if not (call.is_pipeline or isinstance(given, (np.ndarray, tf.Tensor, list, tuple, dict))):
        return None
    with suppress(Exception):  # it may take other inputs than those of the call
        return traced(call, step_of(call.model, kind), call.dataset.element_spec)
    return None


def _same_each_time(call: Call, step: Callable[[Any], Any], python: Sequence[Any]) -> str:
    """Return that Python in a step does not do the same each time that it is traced; "" if it does."""
    with Watch(()) as making:
        traced(call, step)  # variables are made in the first
    with Watch([*python, *parts_of(call.model)]) as watch:
        first, second = traced(call, step), traced(call, step)
    if did := watch.found or watch.asked or making.asked:
        return f"Python in the step {did} each time, and would be run once."
    if first != second or making.drew or watch.drew:
        return "Python in the step gives other values in each step, such as random numbers, and would be run once."
    return ""


def _asks_whether_eager(found: Sequence[Any]) -> str:
    """Return what Python code names, also in texts as in hasattr(x, "numpy"), that tells how it runs; "" without."""
    in_text = any("numpy" in part.co_consts for part in own_code(found))
    return min(_EAGER & names_in(found), default="") or ("numpy" if in_text else "")


def _handles(found: Iterable[Any]) -> bool:
    """Return whether Python code handles errors that a tensor has only eagerly, or only without a value."""
    return any(_handles_others([*dis.get_instructions(part)]) for part in own_code(found))


def _handles_others(steps: Sequence[dis.Instruction]) -> bool:
    for at, step in enumerate(steps):
        if step.opname in ("CHECK_EXC_MATCH", "CHECK_EG_MATCH"):
            loaded = takewhile(
                lambda each: each.opname.startswith(("LOAD_", "BUILD_TUPLE")), steps[at - 1 :: -1]
            )
            if {str(each.argval) for each in loaded if each.opname.startswith("LOAD_")} - _ALIKE:
                return True
    return any(
        (one.opname, then.opname) == ("PUSH_EXC_INFO", "POP_TOP")  # except without a class
        for one, then in pairwise(steps)
    )


def _fed(call: Call, python: Iterable[Any]) -> str:
    """Return what the Python of an input may change of what the step's Python reads; "" if it is nothing."""
    found = {id(each): each for each in reached(*python_of_input(call))}
    code = [*own_code(found.values())]
    if changes_any(code) and any(map(part_of_training(call), found.values())):
        return "what it names of the model"
    return shared(code, found, python, but=())
