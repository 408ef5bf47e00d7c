"""Run work in processes of its own, and say how one died.

The first process has imported the framework and touched no device, so that a fork of it is ready at once and a script
in it can still set up the framework. Standard library only.
"""

from __future__ import annotations

import ctypes
import errno
import faulthandler
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from os import _exit  # by a name of its own: scripts replace functions of os
from pathlib import Path
from typing import NoReturn

from workloads.driver.sites import SCRATCH
from workloads.protocol import DIED, OUT_OF_MEMORY, PRIVATE, STALLED, file_of, private

# How often a process is looked at.
_POLL_S = 0.02
# A process that looks so often and has not for this long was stopped itself, and all others of its container with it.
_STOOD_STILL_S = 1.0
# A fork that has not begun after this time never will: the image's framework cannot be forked.
_BEGINS_S = 60.0
# How long a stalled process may take to write where it is.
_TRACE_S = 1.0
_TRACE_SIGNAL = signal.SIGRTMAX
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
# The exit code of a process that could not write because the size of files is limited.
FILES_LIMITED_EXIT = 211
# A line of a script in its scratch folder; see workloads/driver/script.py.
_PLACE = re.compile(rf'File "[^"\n]*/{SCRATCH}[^/"\n]+/([^"\n]+)", line (\d+)')
_FINISHED = "finished"
# Files with a counter of processes killed for memory: of the container, else of the host.
_OOM_FILES = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control", "/proc/vmstat")
# Files with a counter of processes and threads that could not start because of the container's limit.
_PIDS_FILES = ("/sys/fs/cgroup/pids.events", "/sys/fs/cgroup/pids/pids.events")
_EXITED = "the process exited with code"

# Ends a process whose work is done.
End = Callable[[], NoReturn]


@dataclass(frozen=True, kw_only=True)
class Death:
    """How a process ended that did not finish its work.

    Attributes:
        kind: type of the error event: OUT_OF_MEMORY, STALLED or DIED.
        how: a clause such as "the process was killed by SIGABRT".
        at: the file and line of the script that it was executing; None if unknown.
        began: whether it had begun its work.
        refused: whether it could not start a process or a thread, because of their limit.
    """

    kind: str
    how: str
    at: tuple[str, int] | None
    began: bool
    refused: bool = False

    def sentence(self, variant: str, place: str, *, measured: bool = False) -> str:
        """Return what happened while `variant` was measured ("" for before) at a place, with what to try.

        Args:
            measured: whether all of the variant had been measured by then.
        """
        reading = f" in a reading of {variant}" if variant else " before it was measured"
        where = f", at {place}" if place else ""
        if measured and self.kind == STALLED:
            return f"{self.how[0].upper()}{self.how[1:]} after its measurement{where}. No reading is lost."
        advice = {
            OUT_OF_MEMORY: "Raise --memory or lower the batch size.",
            STALLED: "Raise --stall to wait longer. An input that waits for its own training, such as a queue that a "
            "callback fills, never gives the batches that are read before it.",
        }.get(self.kind, "See log.txt for its last output.")
        if "RLIMIT_FSIZE" in self.how:
            advice = "Leave that out of the script."
        if _EXITED in self.how:
            advice = (
                "If the script ends its own process, by os._exit or as the parent of os.fork, leave that out; else see "
                "log.txt for its last output."
            )
        if self.refused:
            advice = start_fewer()
        if signal.SIGBUS.name in self.how:
            advice = (
                "Shared memory (/dev/shm) may be full: use threads instead of processes, or fewer of them."
            )
        return f"{self.how[0].upper()}{self.how[1:]}{reading}{where}. {advice}"


class Processes:
    """Starts one process after another and waits for each.

    Args:
        command: starts a fresh interpreter for a task where forks do not work; the task is its last argument.
        progress: returns a number that grows as the process writes events.
        stall_s: a process whose `progress` stands still for this long is killed; 0 for never.
        stopped: called with the time on the monotonic clock, from and to, in nanoseconds, in which all processes,
            this one too, were stopped from outside.
    """

    def __init__(
        self,
        command: Sequence[str],
        progress: Callable[[], int],
        stall_s: float,
        stopped: Callable[[int, int], None],
    ) -> None:
        self._command = command
        self._progress = progress
        self._stall_s = stall_s
        self._stopped = stopped
        self._forks = True
        # Adopt what a script leaves behind, so that it can be killed.
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def run(self, work: Callable[[End], None], task: str) -> Death | None:
        """Run `work` in a fork of this process, or `task` in a fresh interpreter; return how it died, if it did.

        All its descendants have ended afterwards.
        """
        death = self._run(work, task)
        if death is not None and not death.began and self._forks:
            self._forks = False
            death = self._run(work, task)
        return death

    def _run(self, work: Callable[[End], None], task: str) -> Death | None:
        # In memory, because a script may fill its disk.
        with os.fdopen(os.memfd_create("trace"), "w+", encoding="utf-8", errors="replace") as trace:
            before, files = self._progress(), _private_files()
            kills, refusals = _counter(_OOM_FILES, "oom_kill"), _counter(_PIDS_FILES, "max")
            if self._forks:
                pid = _fork(work, trace.fileno())
            else:
                os.set_inheritable(trace.fileno(), True)
                command = [*self._command, str(trace.fileno()), task]
                environment = {**os.environ, PRIVATE: json.dumps(dict(private()))}
                pid = os.posix_spawn(command[0], command, environment, setsid=True)
            try:
                status, how = self._wait(pid, before)
            finally:
                _kill_descendants(pid)
                _remove(_private_files() - files)
            trace.seek(0)
            told = trace.read()
        if told.endswith(_FINISHED):
            return None
        found = _PLACE.search(told)
        at = (found[1], int(found[2])) if found else None
        code = os.waitstatus_to_exitcode(status)
        began = self._progress() > before
        kind = STALLED if how.startswith("no event") else DIED
        if not how and code == -signal.SIGKILL and _counter(_OOM_FILES, "oom_kill") > kills:
            kind, how = OUT_OF_MEMORY, "the process was killed because memory ran out"
        if code == FILES_LIMITED_EXIT:
            how = "the size of files is limited (RLIMIT_FSIZE), so nothing could be written"
        if not how and code < 0:
            how = f"the process was killed by {_signal_name(-code)}"
        if not how:
            how = f"{_EXITED} {code}"
        refused = kind == DIED and _counter(_PIDS_FILES, "max") > refusals
        return Death(kind=kind, how=how, at=at, began=began, refused=refused)

    def _wait(self, pid: int, before: int) -> tuple[int, str]:
        """Wait for a process to end, and kill it if it stalls; return its wait status and why it was killed."""
        program = _program(pid)
        last = before
        since = looked = time.monotonic()
        how = ""
        while True:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return status, how
            now, current = time.monotonic(), self._progress()
            if now - looked > _STOOD_STILL_S:
                self._stopped(round(looked * 1e9), round(now * 1e9))
                since += now - looked
            looked = now
            if current != last:
                last, since = current, now
            limit_s = _BEGINS_S if self._forks and current == before else self._stall_s
            if not how and self._stall_s and now - since > limit_s:
                how = f"no event for {now - since:.0f} s, so the process was stopped"
                with suppress(ProcessLookupError):
                    os.kill(pid, _TRACE_SIGNAL)
                    time.sleep(_TRACE_S)
                    os.kill(pid, signal.SIGKILL)
            elif not how and self._forks and (now_runs := _program(pid)) and now_runs != program:
                how = "the script replaced its process with another program (os.exec)"
                os.kill(pid, signal.SIGKILL)
            time.sleep(_POLL_S)


def _fork(work: Callable[[End], None], trace: int) -> int:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12 warns of forks beside threads
        pid = os.fork()
    if pid:
        return pid
    os.setsid()
    work_watched(work, trace)


def work_watched(work: Callable[[End], None], trace: int) -> NoReturn:
    """Do the work and end this process; other threads, destructors and exit handlers do not delay its end.

    Args:
        work: may end the process early by calling its argument.
        trace: file descriptor that receives where this process is when it dies or stalls, and that it has finished.
    """
    # It is the first to be killed when memory runs out.
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("800", encoding="ascii")
    identity, again = file_of(trace), f"/proc/{os.getppid()}/fd/{trace}"
    faulthandler.enable(trace, all_threads=False)
    # In the main thread, also if it waits in C. From another thread, reading its frames may crash.
    faulthandler.register(_TRACE_SIGNAL, trace, all_threads=False)

    def end(code: int = 0) -> NoReturn:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # scripts may replace or close them
                stream.flush()
        if code == 0:
            kept = file_of(trace) == identity  # scripts may close it, and open another file
            os.write(trace if kept else os.open(again, os.O_WRONLY | os.O_APPEND), _FINISHED.encode())
        _exit(code)

    try:
        work(end)
        end()
    except BaseException as error:  # what work does not handle is a fault of ours
        traceback.print_exc()
        _exit(FILES_LIMITED_EXIT if is_files_limited(error) else 1)


def is_files_limited(error: BaseException) -> bool:
    """Return whether an error is that a file would be larger than the process may write."""
    return isinstance(error, OSError) and error.errno == errno.EFBIG


def _program(pid: int) -> bytes:
    """Return what changes when a process runs another program; its command line also changes with its title."""
    try:
        return Path(f"/proc/{pid}/auxv").read_bytes()
    except OSError:
        return b""


def _kill_descendants(pid: int) -> None:
    """Kill what a process has left: its group, and orphans, which this process has adopted."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    while children := [each for each in processes() if parent(each) == os.getpid()]:
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(child, 0)


def processes() -> list[int]:
    """Return the numbers of all processes that are seen here."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208


def parent(pid: int) -> int:
    """Return the parent of a process; 0 if it has ended."""
    return state_of(pid)[2]


def state_of(pid: int) -> tuple[str, str, int]:
    """Return the name, the state and the parent of a process; "", "" and 0 if it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "", "", 0
    # State and parent follow the name in parentheses, which may contain anything.
    name, _, rest = stat.partition("(")[2].rpartition(")")
    state, above = rest.split()[:2]
    return name, state, int(above)


def _private_files() -> set[Path]:
    """Return what lies in a trial's own temporary folder, which is its home; nothing of a folder that others use."""
    folder = Path(tempfile.gettempdir())
    return set(folder.iterdir()) if os.environ.get("HOME") == str(folder) else set()


def _remove(paths: Iterable[Path]) -> None:
    """Remove what a process has left, so that the next one finds what the first one found."""
    for path in paths:
        if not path.is_symlink() and path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink()


def start_fewer() -> str:
    """Return what to do if a process or a thread cannot be started, with the container's limit if it can be read."""
    most = ""
    for folder in ("/sys/fs/cgroup/pids", "/sys/fs/cgroup"):
        with suppress(OSError, ValueError):
            most = f" to {int(Path(folder, 'pids.max').read_text(encoding='ascii')):,}"
    return f"Processes and threads are limited{most}: start fewer, or wait for those that end."


def _counter(files: Iterable[str], key: str) -> int:
    """Return the value of a key in the first of some files that has it; 0 if none has."""
    for name in files:
        try:
            rows = [line.split() for line in Path(name).read_text(encoding="ascii").splitlines()]
        except OSError:
            continue
        for row in rows:
            if row[0] == key:
                return int(row[1])
    return 0


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
