"""Values as what JSON has, and back: the one place that serialises what tfbench keeps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, get_origin

import msgspec
import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")


def to_plain(value: Any, put: Callable[[NDArray[Any]], Any] | None = None) -> Any:
    """Return a dataclass, or a collection of them, as dictionaries, lists and plain values.

    Args:
        put: what stands for an array; without it there may be none.
    """

    def other(value: Any) -> Any:
        if isinstance(value, Path):
            return str(value)
        if isinstance(value, np.ndarray) and put is not None:
            return put(value)
        raise NotImplementedError(f"{type(value).__name__} cannot be kept")

    return msgspec.to_builtins(value, str_keys=True, builtin_types=(bytes,), enc_hook=other)


def from_plain(plain: Any, kind: type[T], get: Callable[[Any], NDArray[Any]] | None = None) -> T:
    """Return the value that `to_plain` was given; fields that `kind` does not have are left out.

    Args:
        get: gives the array that a value stands for.

    Raises:
        ValueError: it is none of that kind; the message names the field.
    """

    def other(kind: type[Any], plain: Any) -> Any:
        if kind is Path:
            return Path(plain)
        if get is not None and (get_origin(kind) or kind) is np.ndarray:
            return get(plain)
        raise ValueError(f"no {kind.__name__} is expected here")

    return msgspec.convert(plain, kind, dec_hook=other)
