"""Whether `steps-per-execution` fits a call."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from workloads.driver.call import Call
from workloads.driver.fitting.output import read_output
from workloads.driver.fitting.reading import live, python_of_input, watched
from workloads.driver.own_code.callbacks import around_batches
from workloads.driver.own_code.reached import is_own
from workloads.driver.sites import where
from workloads.fits import may_have_callbacks

_WHOLE_MODEL = re.compile(r"(\.keras|(?<!\.weights)\.(h5|hdf5))$")


def misfit(call: Call) -> str:
    """Return why several steps per call of TensorFlow would change what runs between them; "" if they would not."""
    if module := _working_beside(call):
        return f"{module} may train or predict too, with callbacks that act around each batch."
    given = call.arguments.get("steps_per_epoch" if call.trains else "steps")
    if call.epoch.ends and call.epoch.batches is None and not given:
        return "Nobody knows how many steps an epoch has, and Keras counts steps of several per call otherwise then."
    per_call = int(call.model.steps_per_execution)
    if per_call * call.steps_per_batch <= call.as_written.get("steps_per_call", 1) != 1:
        return "The script runs as many steps per call already."
    return later(call) or read_output(call) or watched(call) or _input_reads_training(call)


def later(call: Call) -> str:
    """Return why several steps per call would change what a call does by what it is given; "" if they would not."""
    per_call = int(call.model.steps_per_execution)
    for name in ("steps_per_epoch", "validation_steps", "steps"):
        if (call.arguments.get(name) or 0) % per_call:
            return (
                f"{name} is {call.arguments[name]}, and Keras would round it up to whole calls of {per_call}."
            )
    return around_batches(call)


def program(made: Iterable[str]) -> str:
    """Return that a program may load a whole model, with how it was compiled, among the files that were made."""
    saved = next((each for each in made if _WHOLE_MODEL.search(each)), "")
    return (
        saved and f"A program that the script starts may load {saved}, a model that keeps its steps per call."
    )


def _input_reads_training(call: Call) -> str:
    """Return that Python of an input may read what training changes, where steps follow each other otherwise."""
    found = live(call, python_of_input(call), clock=False)
    return f"The input may read {found}, and would read it at another time." if found else ""


def _working_beside(call: Call) -> str:
    """Return the name of a module next to the script with another call of Keras that has callbacks; "" if none has."""
    for name, module in [*sys.modules.items()]:
        with suppress(OSError, TypeError, SyntaxError):
            text = inspect.getsource(module) if name != "__main__" and is_own(name) else ""
            calls = (each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Call))
            others = (each for each in calls if call.place not in _places(each, str(module.__file__)))
            if any(map(may_have_callbacks, others)):
                return name
    return ""


def _places(node: Any, file: str) -> set[str]:
    """Return the places of the lines of a node of a file."""
    return {where(file, line) for line in range(node.lineno, node.end_lineno + 1)}
