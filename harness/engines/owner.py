"""The owner of a container or process, so that a later harness can clean up after a killed one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from workloads.protocol import boot_id


class Owner(NamedTuple):
    """A process on this machine: boot id, PID namespace, process id, start time in clock ticks since boot."""

    boot: str
    pid_namespace: str
    pid: str
    started: str

    def __str__(self) -> str:
        """Return the text that `parse_owner` reads."""
        return " ".join(self)

    def has_ended(self, current: Owner) -> bool:
        """Return whether this owner has certainly ended; False if the process `current` cannot see it."""
        if self.boot != current.boot:
            return True
        return self.pid_namespace == current.pid_namespace and start_ticks(self.pid) != self.started


def current_owner() -> Owner:
    """Return this process as an owner."""
    pid = str(os.getpid())
    return Owner(boot_id(), str(Path("/proc/self/ns/pid").readlink()), pid, start_ticks(pid))


def parse_owner(text: str) -> Owner | None:
    """Parse an owner; return None if the text is invalid."""
    words = text.split()
    return Owner(*words) if len(words) == len(Owner._fields) else None


def start_ticks(pid: str) -> str:
    """Return a process's start time in clock ticks since boot; "" if it is not running."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return ""
    # proc(5): the state is field 3, the start time field 22; the name in parentheses may contain anything.
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]
