"""Parameters that users set with --param: which there are, of what type, and who has them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import UsageError
from harness.untrusted import printable
from workloads.protocol import TENSORFLOW, Workload

_BOOLS: Mapping[str, bool] = {"true": True, "1": True, "on": True, "false": False, "0": False, "off": False}
# All whole numbers up to here are floating-point numbers as well.
MOST_VALUE = 1 << 53


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter's type; `choices` are its values where they are few, `positive` numbers are above 0."""

    kind: type
    choices: tuple[str, ...] = ()
    positive: bool = False


# What the driver knows, so that every workload takes them; a workload's own come on top.
COMMON: Mapping[str, Parameter] = {
    "batch_size": Parameter(kind=int, positive=True),
    "epochs": Parameter(kind=int, positive=True),
    "steps_per_execution": Parameter(kind=int, positive=True),
    "jit_compile": Parameter(kind=bool),
    "precision": Parameter(kind=str, choices=("tf32", "fp32", "fp16", "bf16")),
    "prefetch_to_device": Parameter(kind=bool),
    "parallel_maps": Parameter(kind=bool),
    "prefetch_batches": Parameter(kind=bool),
    "feed": Parameter(kind=str, choices=("fit", "resident")),
}

# Those of them that mean something whatever the framework.
EVERYWHERE = ("batch_size", "epochs")


def parameters(workload: Workload) -> Mapping[str, Parameter]:
    """Return all that `workload` takes; the prefixes "cpu:" and "gpu:" are no part of a name."""
    own = {name.rpartition(":")[2]: Parameter(kind=type(value)) for name, value in workload.params.items()}
    if workload.image != TENSORFLOW:
        return {**own, **{name: COMMON[name] for name in EVERYWHERE}}
    return {**own, **COMMON}


def check_params(params: Mapping[str, str], workloads: Sequence[Workload]) -> Mapping[str, Any]:
    """Turn `name=value` texts into values of the type that the parameter has.

    Raises:
        UsageError: no chosen workload has the parameter, or the value does not fit.
    """
    available = {
        name: parameter for workload in workloads for name, parameter in parameters(workload).items()
    }
    for name in params:
        if name not in available:
            raise UsageError(
                f"There is no parameter {printable(name, 80)!r}.",
                hint=f"Choose from: {', '.join(sorted(available))}.",
            )
    return {name: _parse(name, text, available[name]) for name, text in params.items()}


def check_axes(
    axes: Mapping[str, Sequence[str]], workloads: Sequence[Workload]
) -> Mapping[str, tuple[Any, ...]]:
    """Turn the values of each axis of a sweep into those of the parameter's type, each of them once.

    Raises:
        UsageError: as check_params, or an axis without values.
    """
    for name, texts in axes.items():
        if not texts:
            raise UsageError(
                f"{name} has no values.", hint=f"List them, as in --{name.replace('_', '-')} 1,2,4."
            )
    return {
        name: tuple(dict.fromkeys(check_params({name: text}, workloads)[name] for text in texts))
        for name, texts in axes.items()
    }


def params_for(workload: Workload, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return those of `params` that `workload` has."""
    own = parameters(workload)
    return {name: value for name, value in params.items() if name in own}


def _parse(name: str, text: str, parameter: Parameter) -> Any:
    wanted = f"Give {name} a value of type {parameter.kind.__name__}."
    value: Any
    if parameter.choices:
        value = text if text in parameter.choices else None
        wanted = f"Choose from: {', '.join(parameter.choices)}."
    elif parameter.kind is bool:
        value = _BOOLS.get(text.lower())
        wanted = f"Write {name}=true or {name}=false."
    elif parameter.kind in (int, float):
        value = _number(text, parameter.kind)
        if value is not None and parameter.positive and value <= 0:
            value, wanted = None, f"Give {name} a value above 0."
    elif parameter.kind is str:
        value = text
    else:
        value, wanted = None, f"{name} is not a single value; change it in a workload file of your own."
    if value is None:
        raise UsageError(f"{name}={printable(text, 80)} is not valid.", hint=wanted)
    return value


def _number(text: str, kind: type) -> float | None:
    try:
        value: float = kind(text)
    except (ValueError, OverflowError):
        return None
    return value if abs(value) <= MOST_VALUE else None
