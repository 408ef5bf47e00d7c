"""Exceptions with documented exit codes.

The message says what happened and the `hint` what to try; the command line prints both.
docs/report.md lists the exit codes; a test compares the two.
"""

from __future__ import annotations

import errno
import signal
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import ClassVar

from workloads.hiding import without_secrets

# Signals that end a command, which raises Interrupted.
INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class TfbenchError(Exception):
    """Base class of all errors shown to users."""

    exit_code: ClassVar[int] = 1

    def __init_subclass__(cls, *, exit_code: int) -> None:
        cls.exit_code = exit_code

    def __init__(self, message: str, *, hint: str) -> None:
        self.message = without_secrets(message)
        self.hint = without_secrets(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        end = "" if self.message.endswith((".", "!", "?")) else "."
        return f"{self.message}{end} {self.hint}"

    def __reduce__(self) -> tuple[Callable[..., TfbenchError], tuple[str]]:
        """Support pickling, which the keyword-only argument would prevent."""
        return partial(type(self), hint=self.hint), (self.message,)


class UsageError(TfbenchError, exit_code=2):
    """An unknown workload, profile, device, parameter or option value."""


class EngineError(TfbenchError, exit_code=3):
    """No container engine answers, or it stopped answering."""


class ImageError(TfbenchError, exit_code=4):
    """Wheels, a base image or an image build failed."""


class TrialError(TfbenchError, exit_code=5):
    """At least one trial failed; the others and the report are kept."""


class StoreError(TfbenchError, exit_code=6):
    """A run folder cannot be read or written (disk full), or is not a run folder."""


class BusyError(TfbenchError, exit_code=7):
    """Another run is measuring on this machine."""


class GpuError(TfbenchError, exit_code=8):
    """A requested GPU cannot be used; the message says what is missing."""


class DataError(TfbenchError, exit_code=9):
    """A dataset could not be downloaded, verified or generated."""


class SlowerError(TfbenchError, exit_code=10):
    """A run is slower than its baseline allows, incomplete, or not comparable with it."""


class FleetError(TfbenchError, exit_code=11):
    """No cluster answers, or some nodes could not be measured; the results of the others are kept."""


class UnhealthyError(TfbenchError, exit_code=12):
    """A health check of the machine failed; the report is kept."""


class MissedError(TfbenchError, exit_code=13):
    """A limit of --accept was missed; the report is kept."""


class UndecidedError(TfbenchError, exit_code=14):
    """No limit of --accept was missed, but some are undecided or were not measured; the report is kept."""


class Interrupted(TfbenchError, exit_code=130):  # noqa: N818 - caused by the user, not an error
    """The user pressed Ctrl-C, or the process received a termination signal."""


def check_names(kind: str, names: Iterable[str], choices: Collection[str]) -> None:
    """Raise UsageError for the first of some names that is not a choice."""
    for name in names:
        if name not in choices:
            raise unknown(kind, name, choices)


def unknown(kind: str, name: str, choices: Iterable[str]) -> UsageError:
    """Return the error for an unknown name; its hint lists the choices and suggests the closest."""
    choices = tuple(choices)
    suggestion = "".join(f"Did you mean {match}? " for match in get_close_matches(name, choices, n=1))
    return UsageError(
        f"Unknown {kind} {name[:80]!r}.", hint=f"{suggestion}Choose from: {', '.join(choices)}."
    )


def last_lines(output: str) -> str:
    """Return the last lines of a program's output, for an error message."""
    return "\n".join(output.strip().splitlines()[-10:])


def writing_hint(error: OSError, otherwise: str) -> str:
    """Return what to try after a file could not be written; `otherwise` if its error says no more."""
    if error.errno == errno.EAGAIN:
        return "No more processes may be started: end others, or raise the limit, `ulimit -u` or the cgroup's pids.max."
    if error.errno == errno.ENAMETOOLONG:
        return "Choose a shorter name: --out for runs, TFBENCH_CACHE for the cache."
    if error.errno in (errno.ENOENT, errno.ELOOP):
        return "Choose another path: --out for runs, TFBENCH_CACHE for the cache."
    if error.errno != errno.EFBIG:
        return otherwise
    return "The size of files is limited: run `ulimit -f unlimited` first, or choose a folder on another file system."


@contextmanager
def on_disk(path: Path) -> Iterator[None]:
    """Convert OSError while writing below `path` to StoreError."""
    try:
        yield
    except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:
        reasons = {FileExistsError: "exists already", IsADirectoryError: "is a folder"}
        raise StoreError(
            f"{error.filename2 or error.filename or path} {reasons.get(type(error), 'is not in a folder')}.",
            hint="Choose another path: --out for runs, TFBENCH_CACHE for the cache.",
        ) from error
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        reason = "The disk is full, or has no room for more files" if full else str(error.strerror)
        hint = (
            "Free some space, or choose another disk: --out for runs, TFBENCH_CACHE for the cache. "
            "Finished trials are kept."
            if full
            else "Change its permissions, or choose another folder: --out for runs, TFBENCH_CACHE for the cache."
        )
        raise StoreError(
            f"Cannot write {error.filename or path}: {reason}.", hint=writing_hint(error, hint)
        ) from error
