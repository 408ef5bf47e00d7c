"""Parameters that users set with --param: which there are, of what type, and who has them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec

from harness.errors import UsageError, unknown
from harness.untrusted import printable
from workloads.protocol import TENSORFLOW, Workload

# All whole numbers up to here are floating-point numbers as well.
MOST_VALUE = 1 << 53
_Positive = Annotated[int, msgspec.Meta(gt=0)]
_WANTED: Mapping[Any, str] = {
    _Positive: "a whole number above 0",
    int: "a whole number",
    float: "a finite number",
    bool: "true or false",
}

# What the driver knows, so that every workload takes them, with their types; a workload's own come on top.
COMMON: Mapping[str, Any] = {
    "batch_size": _Positive,
    "epochs": _Positive,
    "steps_per_execution": _Positive,
    "jit_compile": bool,
    "precision": Literal["tf32", "fp32", "fp16", "bf16"],
    "prefetch_to_device": bool,
    "parallel_maps": bool,
    "prefetch_batches": bool,
    "feed": Literal["fit", "resident"],
}

# Those of them that mean something whatever the framework.
EVERYWHERE = ("batch_size", "epochs")


def parameters(workload: Workload) -> Mapping[str, Any]:
    """Return the types of all that `workload` takes; the prefixes "cpu:" and "gpu:" are no part of a name."""
    own = {name.rpartition(":")[2]: type(value) for name, value in workload.params.items()}
    if workload.image != TENSORFLOW:
        return {**own, **{name: COMMON[name] for name in EVERYWHERE}}
    return {**own, **COMMON}


def check_params(params: Mapping[str, str], workloads: Sequence[Workload]) -> Mapping[str, Any]:
    """Turn `name=value` texts into values of the type that the parameter has.

    Raises:
        UsageError: no chosen workload has the parameter, or the value does not fit.
    """
    available = {name: kind for workload in workloads for name, kind in parameters(workload).items()}
    for name in params:
        if name not in available:
            raise unknown("parameter", name, sorted(available))
    return {name: _parse(name, text, available[name]) for name, text in params.items()}


def params_for(workload: Workload, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return those of `params` that `workload` has."""
    own = parameters(workload)
    return {name: value for name, value in params.items() if name in own}


def _parse(name: str, text: str, kind: Any) -> Any:
    try:
        value = msgspec.convert(text, kind, strict=False)
        if not isinstance(value, (int, float)) or abs(value) <= MOST_VALUE:
            return value
    except ValueError:
        pass
    choices = ", ".join(get_args(kind)) if get_origin(kind) is Literal else ""
    wanted = f"one of {choices}" if choices else _WANTED.get(kind)
    raise UsageError(
        f"{name}={printable(text, 80)} is not valid.",
        hint=f"Give it {wanted}." if wanted else f"Change {name} in a workload file of your own.",
    )
