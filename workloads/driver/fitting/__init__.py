"""Whether a remedy fits the call that was taken, as only the running script tells: one file for each that may not.

A module with a `misfit` is the check of the remedy of its name, and its `after` what is left to check when the call was
measured, as it reads the input, which may go on from there; its `observed` is what the remedy keeps, its `kept`
what it keeps of a step for later calls, its `later` the check of a later call of the same model, its `later_input` of
any later call, and its `program` of programs that follow. The others help them. The remedies in harness/fixes read a
script's text. Here are its objects: callbacks whose classes may come from anywhere, functions of a pipeline as
TensorFlow has traced them, a step that is traced twice.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from typing import Any

from workloads.driver.call import Call

_MODULES = {
    each.name: importlib.import_module(f"{__name__}.{each.name}") for each in pkgutil.iter_modules(__path__)
}


def misfit(remedy: str, call: Call) -> str:
    """Return why a remedy, by name, would change training, or nothing at all; "" if it fits."""
    check = _of(remedy, "misfit")
    return check(call) if check else ""


def misfit_after(remedy: str, call: Call) -> str:
    """Return why a remedy would change training, from what leaves a trace in the input; "" if it fits."""
    check = _of(remedy, "after")
    return check(call) if check else ""


def misfit_later(remedy: str, call: Call, *, of_model: bool) -> str:
    """Return why a remedy would change a later call, by what it is given; "" if it fits.

    Args:
        of_model: whether it is a call of the measured model.
    """
    checks = [_of(remedy, name) for name in ("later_input", *(["later"] if of_model else []))]
    return next(filter(None, (check(call) for check in checks if check)), "")


def kept(remedy: str, call: Call, kind: str) -> Any:
    """Return what a remedy keeps of a step of a kind, as it would be by now, to compare it; None if it keeps nothing.

    Args:
        kind: "train", "test" or "predict".
    """
    keep = _of(remedy, "kept")
    return keep(call, kind) if keep else None


def misfit_program(remedy: str, made: Iterable[str]) -> str:
    """Return why a remedy would change what another program does that the script starts; "" if it fits.

    Args:
        made: names of the files that the script has made since its measured call.
    """
    check = _of(remedy, "program")
    return check(made) if check else ""


def observed(remedy: str, call: Call) -> Any:
    """Return what a remedy keeps, or reads earlier, as it is by now, to compare it; None if it does neither."""
    observe = _of(remedy, "observed")
    return observe(call) if observe else None


def _of(remedy: str, name: str) -> Any:
    return getattr(_MODULES.get(remedy.replace("-", "_")), name, None)
