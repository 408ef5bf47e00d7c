"""The owner of a container or process, so that the next harness can remove what a killed one left."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from workloads.protocol import boot_id


class Owner(NamedTuple):
    """A process of this machine: boot id, PID namespace, process id, and start in clock ticks since boot."""

    boot: str
    pid_namespace: str
    pid: str
    started: str

    def __str__(self) -> str:
        """Return the text for `owner_from`."""
        return " ".join(self)

    def gone_for(self, here: Owner) -> bool:
        """Return whether this owner has certainly ended, as far as the process `here` can see."""
        if self.boot != here.boot:
            return True
        return self.pid_namespace == here.pid_namespace and start_ticks(self.pid) != self.started


def current_owner() -> Owner:
    """Describe this process."""
    pid = str(os.getpid())
    return Owner(boot_id(), str(Path("/proc/self/ns/pid").readlink()), pid, start_ticks(pid))


def owner_from(text: str) -> Owner | None:
    """Parse an owner; None if it is not one."""
    words = text.split()
    return Owner(*words) if len(words) == len(Owner._fields) else None


def start_ticks(pid: str) -> str:
    """Return when a process started, in clock ticks since boot; "" if it does not run."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return ""
    # proc(5): the state is field 3, the start field 22; the name in parentheses may contain anything.
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]
