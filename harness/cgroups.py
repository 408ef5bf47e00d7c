"""Find the cgroup of a process (v1, v2 or hybrid) and its limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

# Accounting controllers of v1; a host without any of them uses the unified hierarchy (v2).
_ACCOUNTING = frozenset(("cpuacct", "memory", "blkio", "pids"))
UNIFIED = ""


class NoCgroupError(Exception):
    """The process has no separate, readable cgroup; the message is a sentence with the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cgroup:
    """A cgroup. `folders` maps v1 controllers, and "" for the unified hierarchy, to folders."""

    version: int
    folders: Mapping[str, Path]

    def file(self, controller: str, name: str) -> Path:
        """Return the path of a controller's file, which need not exist. In v2 all controllers share a folder."""
        folder = self.folders.get(controller if self.version == 1 else UNIFIED, Path("/nonexistent"))
        return folder / name


def find(root: Path, pid: int | str) -> Cgroup:
    """Return the cgroup of process `pid` or "self", with /proc and the mounts under `root`.

    Raises:
        NoCgroupError: no such process, or its hierarchy is not mounted.
    """
    paths = _paths(root / f"proc/{pid}/cgroup")
    version = 1 if _ACCOUNTING & paths.keys() else 2
    folders = {}
    for controller, (mount, branch) in _mounts(root).items():
        if controller in paths:
            # If the harness runs in a container, only a branch of the hierarchy is mounted.
            relative = _relative_path(paths[controller], branch)
            if (mount / relative).is_dir():
                folders[controller] = mount / relative
    if not (_ACCOUNTING if version == 1 else {UNIFIED}) & folders.keys():
        raise NoCgroupError(f"The cgroup of process {pid} is not mounted where the harness can see it.")
    return Cgroup(version=version, folders=folders)


def locate(root: Path, pid: int | None) -> Cgroup:
    """Return the cgroup of a process if it differs from the harness's own.

    Raises:
        NoCgroupError: no such process, or a shared cgroup.
    """
    if pid is None:
        raise NoCgroupError("The process has ended.")
    cgroup = find(root, pid)
    paths, own = _paths(root / f"proc/{pid}/cgroup"), _paths(root / "proc/self/cgroup")
    accounting = _ACCOUNTING if cgroup.version == 1 else {UNIFIED}
    if all(own.get(controller) == paths[controller] for controller in accounting & cgroup.folders.keys()):
        raise NoCgroupError("The process shares the harness's cgroup and cannot be measured separately.")
    return cgroup


def limits(cgroup: Cgroup) -> Mapping[str, float]:
    """Return metric -> limit of CPU time (in CPUs), memory and tasks set on a cgroup itself, not on its parents."""
    if cgroup.version == 2:
        quota, _, period = _text(cgroup.file(UNIFIED, "cpu.max")).partition(" ")
        memory = _text(cgroup.file(UNIFIED, "memory.max"))
    else:
        quota = _text(cgroup.file("cpu", "cpu.cfs_quota_us"))
        period = _text(cgroup.file("cpu", "cpu.cfs_period_us"))
        memory = _text(cgroup.file("memory", "memory.limit_in_bytes"))
    pids = _text(cgroup.file("pids", "pids.max"))
    # v1 reports "no limit" as the largest multiple of the page size.
    found = {
        "cpu_limit_cpus": int(quota) / int(period) if quota.isdigit() and period.isdigit() else None,
        "mem_limit_bytes": int(memory) if memory.isdigit() and int(memory) < 1 << 60 else None,
        "pids_limit": int(pids) if pids.isdigit() else None,
    }
    return {metric: limit for metric, limit in found.items() if limit is not None}


def _relative_path(path: str, branch: str) -> str:
    if branch != "/" and (path == branch or path.startswith(branch + "/")):
        path = path[len(branch) :]
    return path.lstrip("/")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _paths(file: Path) -> dict[str, str]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise NoCgroupError(f"{file} cannot be read: {error.strerror}.") from error
    rows = (line.split(":", 2) for line in lines)
    return {controller: row[2] for row in rows if len(row) == 3 for controller in row[1].split(",")}


def _mounts(root: Path) -> dict[str, tuple[Path, str]]:
    """Return controller -> mount point and the mounted branch of its hierarchy."""
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
