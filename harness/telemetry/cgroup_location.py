"""Where a process's cgroup is, in both versions and in the hybrid of the two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# A cgroup v1 host counts these; without any of them the unified hierarchy does the accounting.
_ACCOUNTING = frozenset(("cpuacct", "memory", "blkio", "pids"))
UNIFIED = ""


class NoCgroupError(Exception):
    """The process has no cgroup of its own that can be read; the message is the gap's reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cgroup:
    """A process's cgroup: `folders` maps v1 controllers, and "" for the unified hierarchy, to folders."""

    version: int
    folders: Mapping[str, Path]


def locate(root: Path, pid: int | None) -> Cgroup:
    """Find the cgroup of process `pid`, with /proc and the mounts under `root`.

    Raises:
        NoCgroupError: no such process, no mounted hierarchy, or a cgroup that is the harness's own too.
    """
    if pid is None:
        raise NoCgroupError("The process has ended.")
    paths = _paths(root / f"proc/{pid}/cgroup")
    own = _paths(root / "proc/self/cgroup")
    folders: dict[str, Path] = {}
    for controller, (folder, mounted) in _mounts(root).items():
        if controller in paths:
            below = paths[controller]
            # In a container of its own the harness sees its branch of the hierarchy mounted, not the root.
            if mounted != "/" and (below == mounted or below.startswith(mounted + "/")):
                below = below[len(mounted) :]
            if (folder / below.lstrip("/")).is_dir():
                folders[controller] = folder / below.lstrip("/")
    version = 1 if _ACCOUNTING & paths.keys() else 2
    counted = _ACCOUNTING if version == 1 else {UNIFIED}
    if not counted & folders.keys():
        raise NoCgroupError(f"The cgroup of process {pid} is not mounted where the harness can see it.")
    if all(own.get(controller) == paths[controller] for controller in counted & folders.keys()):
        raise NoCgroupError("The process shares the harness's cgroup and cannot be measured separately.")
    return Cgroup(version=version, folders=folders)


def _paths(file: Path) -> dict[str, str]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise NoCgroupError(f"{file} cannot be read: {error.strerror}.") from error
    rows = (line.split(":", 2) for line in lines)
    return {controller: row[2] for row in rows if len(row) == 3 for controller in row[1].split(",")}


def _mounts(root: Path) -> dict[str, tuple[Path, str]]:
    """Return, for each controller, where it is mounted and which part of its hierarchy."""
    try:
        lines = (root / "proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise NoCgroupError(f"/proc/self/mountinfo cannot be read: {error.strerror}.") from error
    result: dict[str, tuple[Path, str]] = {}
    for line in lines:
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if len(fields) < 5 or len(kind) < 3 or kind[0] not in ("cgroup", "cgroup2"):
            continue
        mount = (root / _unescape(fields[4]).lstrip("/"), _unescape(fields[3]))
        controllers = [UNIFIED] if kind[0] == "cgroup2" else kind[2].split(",")
        for controller in controllers:
            result.setdefault(controller, mount)
    return result


def _unescape(path: str) -> str:
    for octal, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        path = path.replace(octal, char)
    return path
