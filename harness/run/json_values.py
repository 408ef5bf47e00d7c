"""Convert model values to JSON-compatible values and back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, get_origin

import msgspec
import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")


def to_plain(value: Any, encode_array: Callable[[NDArray[Any]], Any] | None = None) -> Any:
    """Convert dataclasses and collections to dictionaries, lists and plain values."""

    def other(value: Any) -> Any:
        if isinstance(value, Path):
            return str(value)
        if isinstance(value, np.ndarray) and encode_array is not None:
            return encode_array(value)
        raise NotImplementedError(f"{type(value).__name__} cannot be serialised")

    return msgspec.to_builtins(value, builtin_types=(bytes,), enc_hook=other)


def from_plain(plain: Any, kind: type[T], decode_array: Callable[[Any], NDArray[Any]] | None = None) -> T:
    """Reverse `to_plain`; unknown fields are ignored.

    Raises:
        ValueError: not a value of this type; the message names the field.
    """

    def other(kind: type[Any], plain: Any) -> Any:
        if kind is Path:
            return Path(plain)
        if decode_array is not None and (get_origin(kind) or kind) is np.ndarray:
            return decode_array(plain)
        raise ValueError(f"unexpected type {kind.__name__}")

    return msgspec.convert(plain, kind, dec_hook=other)
