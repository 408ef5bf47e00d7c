"""Who started a container or a process, so that the next harness removes those whose owner is gone."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from workloads.protocol import boot_id

PREFIX = "tfbench."
RUN, TRIAL = PREFIX + "run", PREFIX + "trial"


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """One process of one boot of this machine: the engine and what the local one leaves behind are its own.

    Attributes:
        boot: the kernel's boot id.
        pid_namespace: process ids of two namespaces say nothing of each other.
        pid, started: process id and its start, in clock ticks since boot: an id alone is reused.
    """

    boot: str
    pid_namespace: str
    pid: int
    started: int

    def labels(self) -> dict[str, str]:
        """Return the labels from which `owner_from` makes this owner again."""
        return {PREFIX + name: str(value) for name, value in asdict(self).items()}

    def gone_for(self, here: Owner) -> bool:
        """Return whether this owner has certainly ended, as seen by the process `here`."""
        if self.boot != here.boot:
            return True
        return self.pid_namespace == here.pid_namespace and start_ticks(self.pid) != self.started


def current_owner() -> Owner:
    """Describe this process."""
    return Owner(
        boot=boot_id(),
        pid_namespace=str(Path("/proc/self/ns/pid").readlink()),
        pid=os.getpid(),
        started=start_ticks(os.getpid()) or 0,
    )


def owner_from(labels: Mapping[str, str]) -> Owner | None:
    """Return the owner that `labels` name, or None if they are not an owner's."""
    try:
        return Owner(
            boot=labels[PREFIX + "boot"],
            pid_namespace=labels[PREFIX + "pid_namespace"],
            pid=int(labels[PREFIX + "pid"]),
            started=int(labels[PREFIX + "started"]),
        )
    except (KeyError, ValueError):
        return None


def start_ticks(pid: int) -> int | None:
    """Return when process `pid` started, in clock ticks since boot; None when it does not run."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # proc(5): the name, in parentheses, may hold anything; the state is field 3, the start field 22.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])
