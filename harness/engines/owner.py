"""Who started a container or a process, so that the next harness removes those whose owner is gone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from workloads.protocol import boot_id


class Owner(NamedTuple):
    """One process of one boot of this machine.

    Attributes:
        boot: the kernel's boot id.
        pid_namespace: process ids of two namespaces say nothing of each other.
        pid, started: process id and its start, in clock ticks since boot: an id alone is reused.
    """

    boot: str
    pid_namespace: str
    pid: str
    started: str

    def __str__(self) -> str:
        """Return the text from which `owner_from` makes this owner again."""
        return " ".join(self)

    def gone_for(self, here: Owner) -> bool:
        """Return whether this owner has certainly ended, as seen by the process `here`."""
        if self.boot != here.boot:
            return True
        return self.pid_namespace == here.pid_namespace and start_ticks(self.pid) != self.started


def current_owner() -> Owner:
    """Describe this process."""
    pid = str(os.getpid())
    return Owner(boot_id(), str(Path("/proc/self/ns/pid").readlink()), pid, start_ticks(pid))


def owner_from(text: str) -> Owner | None:
    """Return the owner that `text` describes, None where it describes none."""
    words = text.split()
    return Owner(*words) if len(words) == len(Owner._fields) else None


def start_ticks(pid: str) -> str:
    """Return when process `pid` started, in clock ticks since boot; "" when it does not run."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return ""
    # proc(5): the name, in parentheses, may hold anything; the state is field 3, the start field 22.
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]
