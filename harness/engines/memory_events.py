"""Count the kernel's out-of-memory kills in a process' control group."""

from __future__ import annotations

from pathlib import Path

_GROUPS = Path("/sys/fs/cgroup")


def oom_file(pid: int) -> Path | None:
    """Return the file that counts kills in the memory group of `pid`, v1 or v2; None where there is none."""
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    for line in lines:
        number, controllers, path = line.split(":", 2)
        inside = path.lstrip("/")
        if "memory" in controllers.split(","):
            file = _GROUPS / "memory" / inside / "memory.oom_control"
        elif number == "0" and not controllers:
            file = _GROUPS / inside / "memory.events"
        else:
            continue
        if file.exists():
            return file
    return None


def oom_kills(file: Path) -> int:
    """Return how many processes the kernel has killed there; 0 when the group is gone or says nothing."""
    try:
        lines = file.read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    for line in lines:
        name, _, value = line.partition(" ")
        if name == "oom_kill":
            return int(value)
    return 0
