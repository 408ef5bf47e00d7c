"""Processes that a script has started, and that still run when its call is measured."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Collection
from multiprocessing.process import BaseProcess
from typing import Any
from weakref import WeakKeyDictionary

from workloads.driver.own_code.changing import changes_files
from workloads.driver.processes import processes, state_of
from workloads.protocol import visible

# Python's audit events of a process that starts another, and one of multiprocessing, which has none.
STARTED = "multiprocessing.start"
STARTING = {
    STARTED, "subprocess.Popen", "os.system", "os.posix_spawn", "os.spawn", "os.fork", "os.forkpty", "os.exec",
}  # fmt: skip

# What processes of multiprocessing run, which they forget when they start.
_runs: WeakKeyDictionary[BaseProcess, list[Any]] = WeakKeyDictionary()


def remember() -> None:
    """Remember from now on what processes of multiprocessing run."""
    start = BaseProcess.start

    def remembering(process: Any) -> None:
        named = process._kwargs.values()
        _runs[process] = [process._target, *process._args, *named, type(process).run]
        sys.audit(STARTED)
        start(process)

    setattr(BaseProcess, "start", remembering)  # noqa: B010 - a method


def changing_files() -> str:
    """Return which process may change files, by what is known of it; "" if none may.

    Of a program, nothing is known. What is given to a pool of processes is not seen.
    """
    children = multiprocessing.active_children()
    for each in children:
        if found := changes_files(_runs.get(each, [])):
            return f"process {each.name}, by {found}"
    name = running(but={each.pid for each in children})
    return name and f"program {name}"


def running(but: Collection[int | None] = ()) -> str:
    """Return the name of a process that the script has started, or that has outlived one it has; "" if none runs.

    Args:
        but: processes that do not count.
    """
    # The first process adopts orphans.
    own = (os.getpid(), os.getppid())
    states = map(state_of, set(processes()) - {*but, *_helpers(), os.getpid()})
    return next((visible(name) for name, state, above in states if above in own and state != "Z"), "")


def _helpers() -> set[int]:
    """Return the processes that multiprocessing starts for itself."""
    tracker = getattr(sys.modules.get("multiprocessing.resource_tracker"), "_resource_tracker", None)
    server = getattr(sys.modules.get("multiprocessing.forkserver"), "_forkserver", None)
    return {pid for pid in (getattr(tracker, "_pid", None), getattr(server, "_forkserver_pid", None)) if pid}
