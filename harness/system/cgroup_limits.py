"""What the harness itself is confined to by control groups, version 1 or 2."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.system.hardware import number, text

# Version 1 writes the largest multiple of a page when there is no limit.
_UNLIMITED_BYTES = 1 << 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The tightest limit on the way from this process's group to the root; None without one."""

    version: int | None
    cpus: float | None
    memory_bytes: int | None


def own_limits(root: Path) -> Limits:
    """Read the limits that hold for this process."""
    paths = _paths(text(root / "proc/self/cgroup"))
    base = root / "sys/fs/cgroup"
    if (base / "cgroup.controllers").exists():
        version: int | None = 2
        groups = list(_ancestors(base, paths.get("", "/")))
        cpus = [_quota_v2(group) for group in groups]
        memory = [number(group / "memory.max") for group in groups]
    else:
        version = 1 if (base / "memory").exists() or (base / "cpu").exists() else None
        cpus = [_quota_v1(group) for group in _ancestors(base / "cpu", paths.get("cpu", "/"))]
        memory = [
            number(group / "memory.limit_in_bytes")
            for group in _ancestors(base / "memory", paths.get("memory", "/"))
        ]
    return Limits(
        version=version,
        cpus=min((value for value in cpus if value), default=None),
        memory_bytes=min((value for value in memory if value and value < _UNLIMITED_BYTES), default=None),
    )


def _paths(content: str) -> dict[str, str]:
    paths: dict[str, str] = {}
    for line in content.splitlines():
        _, controllers, path = line.split(":", 2)
        paths |= dict.fromkeys(controllers.split(","), path)
    return paths


def _ancestors(base: Path, path: str) -> Iterator[Path]:
    """Yield the group and its parents; inside a container the path may not be there, but the base is."""
    group = base / path.strip("/")
    yield group
    while group != base:
        group = group.parent
        yield group


def _quota_v2(group: Path) -> float | None:
    quota, _, period = text(group / "cpu.max").partition(" ")
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() else None


def _quota_v1(group: Path) -> float | None:
    quota, period = number(group / "cpu.cfs_quota_us"), number(group / "cpu.cfs_period_us")
    return quota / period if quota and period and quota > 0 else None
