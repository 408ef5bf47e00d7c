"""Parameters for --param: names, types, and the workloads that have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec

from harness.errors import UsageError, unknown
from harness.untrusted import printable
from workloads.protocol import TENSORFLOW, Workload

# Integers up to this are exact as floating-point numbers.
MAX_VALUE = 1 << 53
_Positive = Annotated[int, msgspec.Meta(gt=0)]
_EXPECTED: Mapping[Any, str] = {
    _Positive: "a whole number above 0",
    int: "a whole number",
    float: "a finite number",
    bool: "true or false",
}

# Parameters of the driver, which every TensorFlow workload has in addition to its own.
DRIVER_PARAMETERS: Mapping[str, Any] = {
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


def parameters(workload: Workload) -> Mapping[str, Any]:
    """Return the types of a workload's parameters, without the prefixes "cpu:" and "gpu:"."""
    types = {name.rpartition(":")[2]: type(value) for name, value in workload.params.items()}
    if workload.image != TENSORFLOW:
        return {**types, "batch_size": _Positive, "epochs": _Positive}
    return {**types, **DRIVER_PARAMETERS}


def check_params(params: Mapping[str, str], workloads: Sequence[Workload]) -> Mapping[str, tuple[Any, ...]]:
    """Convert comma-separated texts to different values of the parameter's type.

    Raises:
        UsageError: no selected workload has the parameter, or the value is not valid.
    """
    available = {name: kind for workload in workloads for name, kind in parameters(workload).items()}
    for name in params:
        if name not in available:
            raise unknown("parameter", name, sorted(available))
    return {
        name: tuple(dict.fromkeys(_parse(name, part, available[name]) for part in _parts(text)))
        for name, text in params.items()
    }


def params_for(workload: Workload, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the subset of `params` that `workload` has."""
    types = parameters(workload)
    return {name: value for name, value in params.items() if name in types}


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()] or [text]


def _parse(name: str, text: str, kind: Any) -> Any:
    try:
        value = msgspec.convert(text, kind, strict=False)
        if not isinstance(value, (int, float)) or abs(value) <= MAX_VALUE:
            return value
    except ValueError:
        pass
    choices = ", ".join(get_args(kind)) if get_origin(kind) is Literal else ""
    expected = f"one of {choices}" if choices else _EXPECTED.get(kind)
    raise UsageError(
        f"{name}={printable(text, 80)} is not valid.",
        hint=f"Use {expected}." if expected else f"Change {name} in your own workload file.",
    )
