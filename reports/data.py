"""The numbers behind a report as plain JSON values, to be carried inside the page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any

import numpy as np

from harness.model.analysis import Analysis

# Arrays stay in the run directory: they are what makes it large.
_LEFT_OUT = frozenset({"telemetry", "steps"})
_AS_THEY_ARE = frozenset({str, int, bool, type(None)})


def plain(analysis: Analysis) -> dict[str, Any]:
    """Give an analysis and its run without the arrays of telemetry and single steps."""
    found = _plain(analysis)
    assert isinstance(found, dict)
    for trial in found["run"]["trials"]:
        for name in _LEFT_OUT:
            del trial[name]
    return found


def _plain(value: Any) -> Any:
    # Nearly all of them are one of these; an Enum or a dataclass of such a type is not exactly it.
    if type(value) in _AS_THEY_ARE:
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, np.ndarray):
        return None
    if is_dataclass(value) and not isinstance(value, type):
        return {name: _plain(getattr(value, name)) for name in _names(type(value))}
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


@cache
def _names(type_: type) -> tuple[str, ...]:
    return tuple(each.name for each in fields(type_))
