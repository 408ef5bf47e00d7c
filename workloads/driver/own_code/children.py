"""Processes that a script has started, and that still run when its call is measured."""

from __future__ import annotations

import multiprocessing
import os
import sys
from multiprocessing.process import BaseProcess
from typing import Any
from weakref import WeakKeyDictionary

from workloads.driver.own_code.changing import changes_files
from workloads.driver.processes import processes, state_of
from workloads.protocol import visible

# What processes of multiprocessing run, which they forget when they start.
_runs: WeakKeyDictionary[BaseProcess, list[Any]] = WeakKeyDictionary()


def remember() -> None:
    """Remember from now on what processes of multiprocessing run."""
    start = BaseProcess.start

    def remembering(process: Any) -> None:
        named = process._kwargs.values()
        _runs[process] = [process._target, *process._args, *named, type(process).run]
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
    known = {each.pid for each in children} | _helpers() | {os.getpid()}
    # The first process adopts orphans.
    own = (os.getpid(), os.getppid())
    states = map(state_of, set(processes()) - known)
    names = (visible(name) for name, state, above in states if above in own and state != "Z")
    return next((f"program {name}" for name in names), "")


def _helpers() -> set[int]:
    """Return the processes that multiprocessing starts for itself."""
    tracker = getattr(sys.modules.get("multiprocessing.resource_tracker"), "_resource_tracker", None)
    server = getattr(sys.modules.get("multiprocessing.forkserver"), "_forkserver", None)
    return {pid for pid in (getattr(tracker, "_pid", None), getattr(server, "_forkserver_pid", None)) if pid}
