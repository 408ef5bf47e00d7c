"""What can go wrong, as one family of exceptions with documented exit codes.

Every message says what happened and every `hint` says what to try; the command line prints both.
The codes are part of the interface: README lists them, and a test holds the two together.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import ClassVar


class TfbenchError(Exception):
    """Base of every error that a user can cause or meet.

    Args:
        message: what happened, one sentence.
        hint: what to try, one sentence in the imperative.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}"

    def __reduce__(self) -> tuple[Callable[..., TfbenchError], tuple[str]]:
        """Let it travel between processes, which a keyword-only argument would prevent."""
        return partial(type(self), hint=self.hint), (self.message,)


class UsageError(TfbenchError):
    """An unknown workload, profile, device, parameter or option value."""

    exit_code = 2


class EngineError(TfbenchError):
    """No container engine answers, or it stopped answering."""

    exit_code = 3


class ImageError(TfbenchError):
    """Wheels, a base image or an image build failed."""

    exit_code = 4


class TrialError(TfbenchError):
    """At least one trial failed; the others and the report are kept."""

    exit_code = 5


class StoreError(TfbenchError):
    """A run directory cannot be written or is not one of ours; a full disk among them."""

    exit_code = 6


class BusyError(TfbenchError):
    """Another run is measuring on this machine."""

    exit_code = 7


class GpuError(TfbenchError):
    """A GPU was asked for and cannot be used; the message names the missing piece."""

    exit_code = 8


class DataError(TfbenchError):
    """A dataset could not be fetched, verified or made."""

    exit_code = 9


class SlowerError(TfbenchError):
    """A run is slower than its baseline allows, lacks what that measured, or could not be judged."""

    exit_code = 10


class FleetError(TfbenchError):
    """No cluster answers, or some of its nodes could not be measured; what the others did is kept."""

    exit_code = 11


class Interrupted(TfbenchError):  # noqa: N818 - it is what the user did, not a fault
    """The user pressed Ctrl-C or the process was told to end."""

    exit_code = 130


def unknown(what: str, name: str, choices: Iterable[str]) -> UsageError:
    """Return the error of a name that there is not; its hint has the nearest one and all that there are."""
    choices = tuple(choices)
    near = "".join(f"Did you mean {match}? " for match in get_close_matches(name, choices, n=1))
    return UsageError(f"There is no {what} {name[:80]!r}.", hint=f"{near}Choose from: {', '.join(choices)}.")


@contextmanager
def on_disk(path: Path) -> Iterator[None]:
    """Turn what the disk refuses below `path` into StoreError."""
    try:
        yield
    except FileExistsError as error:
        raise StoreError(f"{path} exists already.", hint="Choose another folder with --out.") from error
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        what = "The disk is full" if full else str(error.strerror)
        hint = "Free some space, or choose another disk with --out; finished trials are kept."
        raise StoreError(
            f"Cannot write {error.filename or path}: {what}.",
            hint=hint if full else "Change its permissions, or choose another folder with --out.",
        ) from error
