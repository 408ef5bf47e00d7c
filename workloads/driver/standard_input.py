"""The standard input of a script, which is empty in a container: whoever has read it is told."""

from __future__ import annotations

import io
import sys
from contextlib import suppress

_TOLD = (
    "The script has read its standard input, which is empty here: let it read a file beside it, or one of --mount, or "
    "pass values with --arg."
)


class _Noted(io.FileIO):
    """The standard input; reading it is noted."""

    was_read = False

    def readinto(self, buffer: bytearray, /) -> int | None:  # type: ignore[override]
        """Fill a buffer, as the file does."""
        _Noted.was_read = True
        return super().readinto(buffer)

    def readall(self) -> bytes:
        """Return all, as the file does."""
        _Noted.was_read = True
        return super().readall()


def note() -> None:
    """Note from now on whether somebody reads the standard input."""
    # It may be closed, or be no file.
    with suppress(AttributeError, OSError, ValueError):
        file = _Noted(sys.stdin.fileno(), closefd=False)
        sys.stdin = io.TextIOWrapper(io.BufferedReader(file), encoding=sys.stdin.encoding)


def advice() -> str:
    """Return what to try for a script that has read its standard input; "" if it has not."""
    return _TOLD if _Noted.was_read else ""
