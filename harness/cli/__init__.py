"""The command line. Only this package prints or exits."""

from __future__ import annotations

import errno
import io
import os
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from harness.errors import INTERRUPTS, Interrupted, StoreError, TfbenchError, writing_hint
from harness.paths import paths_here
from harness.untrusted import printable

# Open files that a command needs, about twice over. With fewer, libraries end in errors of their own.
MIN_FILES = 64
# As a shell tells that SIGPIPE ended a program.
BROKEN_PIPE_EXIT = 141


def main() -> None:
    """Run the command line; turn exceptions into an error message, a hint and an exit code."""
    prepare_process()
    try:
        if (limit := resource.getrlimit(resource.RLIMIT_NOFILE)[0]) < MIN_FILES:
            raise TfbenchError(
                f"{limit} open files are allowed, which is not enough: charts and telemetry need {MIN_FILES}.",
                hint="Run `ulimit -n 1024` first.",
            )
        with stop_on_signals():
            # Imported here so that Ctrl-C during the imports does not print a traceback.
            from harness.cli.app import run  # noqa: PLC0415

            code = run(sys.argv[1:] or ["--help"])
            sys.stdout.flush()
            if not code:
                _check_output()
    except SystemExit:  # click and rich, where whoever read standard output has ended
        code = BROKEN_PIPE_EXIT
    except Exception as error:
        failed = failure(error)
        code = failed.exit_code
        from harness.cli.console import show_error  # noqa: PLC0415

        show_error(failed)
    sys.exit(code)


@contextmanager
def stop_on_signals() -> Iterator[None]:
    """Turn the first signal of INTERRUPTS into `Interrupted`, which ends a command.

    Later signals are ignored so that they cannot interrupt the cleanup. Signals that are already ignored, as
    under nohup, stay ignored.
    """

    def stop(signal_number: int, frame: FrameType | None) -> None:
        for other in INTERRUPTS:
            signal.signal(other, signal.SIG_IGN)
        raise KeyboardInterrupt

    for signal_number in INTERRUPTS:
        if signal.getsignal(signal_number) != signal.SIG_IGN:
            signal.signal(signal_number, stop)
    try:
        yield
    except KeyboardInterrupt as error:
        raise Interrupted("Interrupted.", hint="Run the same command again.") from error


def _check_output() -> None:
    """Raise StoreError if standard output failed, although the files were written."""
    console = sys.modules.get("harness.cli.console")
    for error in getattr(console, "lost", ()):
        raise StoreError(
            f"Standard output could not be written: {error.strerror}.",
            hint="The files are complete. Redirect it to a disk with space.",
        )


def prepare_process() -> None:
    """Make up for a strict umask, closed standard streams and unusual settings of the parent process."""
    # It computes little. OpenBLAS interrupts a process that may not start its threads.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if sys.flags.optimize > 1 and os.environ.pop("PYTHONOPTIMIZE", ""):
        # Altair reads docstrings.
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606
    # Builds set their own. NumPy cannot be imported if it is no number.
    os.environ.pop("SOURCE_DATE_EPOCH", None)
    # After the user's folders, so that chown and rm are found even if PATH is empty, as cron or a service may leave it.
    os.environ["PATH"] = os.pathsep.join(filter(None, (os.environ.get("PATH"), os.defpath)))
    # A user without an entry in passwd may have none, as with `docker run --user`; libraries ask for it.
    if not os.path.isabs(os.path.expanduser("~")):  # noqa: PTH111, PTH117 - Path's raises an error
        os.environ["HOME"] = "/"
    # A umask may keep others out, but not tfbench.
    os.umask(os.umask(0o077) & 0o077)
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        stream = getattr(sys, name)
        if stream is None:
            # The lowest free number. Another file with it would be taken for a standard stream.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
            setattr(sys, name, open(descriptor, "w" if descriptor else "r", encoding="utf-8"))  # noqa: PTH123, SIM115
        elif descriptor and isinstance(stream, io.TextIOWrapper):
            if isinstance(stream.buffer, io.RawIOBase):
                # PYTHONUNBUFFERED: it would lose the rest of a text of which a pipe takes a part.
                stream = open(descriptor, "w", 1, encoding=stream.encoding, closefd=False)  # noqa: SIM115
                setattr(sys, name, stream)
            # File names and labels may contain characters that the locale cannot encode.
            stream.reconfigure(errors="backslashreplace")


def failure(error: Exception) -> TfbenchError:
    """Convert an exception to a TfbenchError; the traceback of an unexpected one goes to a log file."""
    if isinstance(error, TfbenchError):
        return error
    if isinstance(error, FileNotFoundError) and not error.filename:
        return StoreError("The working directory no longer exists.", hint="Change to another one: cd")
    if isinstance(error, FileNotFoundError) and str(error.filename).startswith("/proc/"):
        return StoreError(
            f"System error: {printable(error.filename)}: {error.strerror}.",
            hint="Mount the kernel's file system /proc where tfbench runs.",
        )
    if isinstance(error, MemoryError) or "failed to map segment" in str(error):
        return TfbenchError(
            "There is not enough memory.",
            hint="Close other programs, or raise the limit, such as `ulimit -v`.",
        )
    if "can't start new thread" in str(error):
        return TfbenchError(
            "No more threads may be started.",
            hint="End other programs of this user, or raise the limits: `ulimit -u`, `ulimit -v`.",
        )
    if isinstance(error, ImportError) and os.environ.get("PYTHONPATH"):
        return TfbenchError(
            f"A package cannot be imported: {printable(' '.join(str(error).split()), 300)}",
            hint="PYTHONPATH may lead to another one than tfbench's own: unset PYTHONPATH.",
        )
    if isinstance(error, OSError):
        _discard_output()
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        where = error.filename or (full and (", ".join(_full_folders()) or "standard output"))
        what = f"{where}: {error.strerror}" if where else f"{error.strerror}"
        return StoreError(
            f"System error: {printable(what, 500)}.",
            hint=writing_hint(error, "Check the path, its permissions and the disk."),
        )
    with tempfile.NamedTemporaryFile("w", prefix="tfbench-", suffix=".log", delete=False) as log:
        log.write("".join(traceback.format_exception(error)))
    return TfbenchError(
        f"Unexpected {type(error).__name__}: {printable(' '.join(str(error).split()), 300)}",
        hint=f"Report this with the traceback in {log.name}.",
    )


def _full_folders() -> list[str]:
    """Return the folders that tfbench writes to, besides those of runs, whose file systems are full."""
    full = []
    for folder in (os.environ.get("TMPDIR") or "/tmp", str(paths_here().cache), ".", "/dev/shm"):  # noqa: S108
        with suppress(OSError):
            if shutil.disk_usage(folder).free < 1 << 20:
                full.append(folder)
    return full


def _discard_output() -> None:
    """Redirect a broken standard output to /dev/null, because Python flushes it again at exit."""
    with suppress(OSError):
        sys.stdout.flush()
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
