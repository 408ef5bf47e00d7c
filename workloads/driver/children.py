"""Processes that a script has started, and that still run when its call is measured."""

from __future__ import annotations

import multiprocessing
import os
import sys
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from workloads.driver.changing import changes_files
from workloads.driver.processes import parent, processes
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
    programs = (each for each in processes() if each not in known and parent(each) in own)
    return next((f"program {name}" for name in map(_name, programs) if name), "")


def _helpers() -> set[int]:
    """Return the processes that multiprocessing starts for itself."""
    tracker = getattr(sys.modules.get("multiprocessing.resource_tracker"), "_resource_tracker", None)
    server = getattr(sys.modules.get("multiprocessing.forkserver"), "_forkserver", None)
    return {pid for pid in (getattr(tracker, "_pid", None), getattr(server, "_forkserver_pid", None)) if pid}


def _name(pid: int) -> str:
    """Return the name of a process; "" if it has ended."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    name, _, rest = status.partition("(")[2].rpartition(")")
    return "" if rest.split()[0] == "Z" else visible(name)
