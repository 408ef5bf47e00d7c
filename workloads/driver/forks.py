"""End processes that a script forks as Python ends them, and not as what runs the script."""

from __future__ import annotations

import atexit
import gc
import io
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import _exit, getpid  # by names of their own: scripts replace functions of os
from typing import NoReturn


@contextmanager
def forks_end() -> Iterator[None]:
    """End a process that is forked within the block where the block ends there."""
    process, error = getpid(), None
    try:
        yield
    except BaseException as raised:
        error = raised
        if getpid() == process:
            raise
    if getpid() != process:
        _end(error)


def _end(error: BaseException | None) -> NoReturn:
    """End this process as Python does after its main module: with its status, its error told and its files written."""
    status = _status(error)
    with suppress(BaseException):
        atexit._run_exitfuncs()
    for each in gc.get_objects():
        if issubclass(type(each), io.IOBase):
            with suppress(Exception):
                each.flush()
    _exit(status)


def _status(error: BaseException | None) -> int:
    """Return the exit status after an error, which is told as Python tells it."""
    if error is None:
        return 0
    if not isinstance(error, SystemExit):
        traceback.print_exception(error)
        return 1
    if error.code is None or isinstance(error.code, int):
        return (error.code or 0) & 0xFF
    sys.stderr.write(f"{error.code}\n")
    return 1
