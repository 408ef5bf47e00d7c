"""Whose containers and processes they are: a process on this machine, in this boot."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple


class Owner(NamedTuple):
    """A process on this machine: boot id, its namespaces, process id, start time in clock ticks since boot.

    Containers and processes have one, so that a later harness can clean up after a killed one.
    """

    boot: str
    namespaces: str
    pid: str
    started: str

    def __str__(self) -> str:
        """Return the text that `owner_has_ended` reads."""
        return " ".join(self)


def current_owner() -> Owner:
    """Return this process as an owner."""
    pid = str(os.getpid())
    return Owner(boot_id(), _namespaces(), pid, start_ticks(pid))


def owner_has_ended(text: str) -> bool:
    """Return whether an owner has certainly ended; False if this process cannot see it, or the text is no owner."""
    words, current = text.split(), current_owner()
    if len(words) != len(current):
        return False
    owner = Owner(*words)
    if owner.boot != current.boot:
        return True
    if owner.namespaces != current.namespaces:
        return False
    return not _is_hidden(owner.pid) and start_ticks(owner.pid) != owner.started


def _namespaces() -> str:
    """Return where process ids and start times are counted as in this process."""
    found = (Path("/proc/self/ns", each) for each in ("pid", "time"))
    return ",".join(str(each.readlink()) for each in found if each.is_symlink())


def _is_hidden(pid: str) -> bool:
    """Return whether a process runs that /proc does not show to this user (its option hidepid)."""
    if Path("/proc", pid).exists():
        return False
    try:
        os.kill(int(pid), 0)
    except PermissionError:
        return True
    except (OSError, ValueError, OverflowError):
        pass
    return False


def boot_id() -> str:
    """Return the kernel's boot id, "" if unavailable."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def start_ticks(pid: str) -> str:
    """Return a process's start time in clock ticks since boot; "" if it is not running."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return ""
    # proc(5): the state is field 3, the start time field 22; the name in parentheses may contain anything.
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]
