"""The files of a cgroup, version 1 and 2: which metrics each holds and how to parse it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.telemetry.cgroupfs import UNIFIED, Cgroup
from harness.telemetry.procfile import ProcFile, pressure, table

# Version 1 says "no limit" with the largest multiple of the page size.
_NO_LIMIT = 1 << 62
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_OLD_PEAK = "This kernel keeps no high-water mark of a cgroup (Linux 5.19 does)."
_NO_PRESSURE = "This kernel does not account for pressure in this cgroup."


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupFile:
    """One file: `missing` is the reason to give when it is not there."""

    file: ProcFile
    metrics: tuple[str, ...]
    parse: Callable[[bytes], dict[str, float]]
    missing: str


_IO = ("io_read_bytes", "io_write_bytes", "io_read_ops", "io_write_ops")
_THROTTLING = ("cpu_periods", "cpu_throttled_periods", "cpu_throttled_s")
_CPU = ("cpu_usage_s", "cpu_user_s", "cpu_system_s")


def files(cgroup: Cgroup, layered: frozenset[bytes]) -> tuple[CgroupFile, ...]:
    """Return the files of `cgroup`; I/O of the `layered` block devices ("253:0") is left out.

    A request to a mapped device is counted again for the disk beneath it.
    """
    both = _Folder(cgroup.folders.get(UNIFIED))
    stalls = tuple(
        both.file(
            f"{name}.pressure",
            (f"{short}_pressure_some_s", f"{short}_pressure_full_s"),
            lambda content, short=short: {  # type: ignore[misc]
                f"{short}_pressure_{share}_s": seconds for share, seconds in pressure(content).items()
            },
            _NO_PRESSURE,
        )
        for name, short in (("cpu", "cpu"), ("memory", "mem"), ("io", "io"))
    )
    return (*(_v1(cgroup, layered) if cgroup.version == 1 else _v2(both, layered)), *stalls)


@dataclass(frozen=True, slots=True)
class _Folder:
    path: Path | None

    def file(
        self,
        name: str,
        metrics: tuple[str, ...],
        parse: Callable[[bytes], dict[str, float]],
        missing: str = "",
    ) -> CgroupFile:
        # A controller that is not mounted is a file that is not there.
        path = (self.path or Path("/nonexistent")) / name
        return CgroupFile(
            file=ProcFile(path), metrics=metrics, parse=parse, missing=missing or f"The cgroup has no {name}."
        )

    def number(self, name: str, metric: str, scale: float = 1, missing: str = "") -> CgroupFile:
        return self.file(name, (metric,), lambda content: {metric: int(content) * scale}, missing)


def _v2(folder: _Folder, layered: frozenset[bytes]) -> tuple[CgroupFile, ...]:
    def cpu(content: bytes) -> dict[str, float]:
        found = table(content)
        names = (b"usage_usec", b"user_usec", b"system_usec", b"throttled_usec")
        metrics = (*_CPU, "cpu_throttled_s")
        values: dict[str, float] = {
            metric: found[name] / 1e6 for name, metric in zip(names, metrics, strict=True) if name in found
        }
        if b"nr_periods" in found:
            values |= {"cpu_periods": found[b"nr_periods"], "cpu_throttled_periods": found[b"nr_throttled"]}
        return values

    def memory(content: bytes) -> dict[str, float]:
        found = table(content)
        return {"mem_anon_bytes": found[b"anon"], "mem_file_bytes": found[b"file"]}

    def io(content: bytes) -> dict[str, float]:
        totals = dict.fromkeys((b"rbytes", b"wbytes", b"rios", b"wios"), 0)
        for line in content.splitlines():
            device, *pairs = line.split()
            for key, _, value in (pair.partition(b"=") for pair in pairs):
                if device not in layered and key in totals:
                    totals[key] += int(value)
        return dict(zip(_IO, totals.values(), strict=True))

    return (
        folder.file("cpu.stat", (*_CPU, *_THROTTLING), cpu),
        folder.number("memory.current", "mem_used_bytes"),
        folder.number("memory.peak", "mem_peak_bytes", missing=_OLD_PEAK),
        folder.file("memory.stat", ("mem_anon_bytes", "mem_file_bytes"), memory),
        folder.file("io.stat", _IO, io, "The I/O controller is not enabled for this cgroup."),
        folder.number("pids.current", "pids"),
    )


def _v1(cgroup: Cgroup, layered: frozenset[bytes]) -> tuple[CgroupFile, ...]:
    def folder(controller: str) -> _Folder:
        return _Folder(cgroup.folders.get(controller))

    def shares(content: bytes) -> dict[str, float]:
        found = table(content)
        return {f"cpu_{name}_s": found[name.encode()] / _TICKS_PER_S for name in ("user", "system")}

    def throttling(content: bytes) -> dict[str, float]:
        found = table(content)
        counts = (found[b"nr_periods"], found[b"nr_throttled"], found[b"throttled_time"] / 1e9)
        return dict(zip(_THROTTLING, counts, strict=True))

    def memory(content: bytes) -> dict[str, float]:
        found = table(content)
        return {"mem_anon_bytes": found[b"total_rss"], "mem_file_bytes": found[b"total_cache"]}

    def requests(metrics: tuple[str, str]) -> Callable[[bytes], dict[str, float]]:
        def parse(content: bytes) -> dict[str, float]:
            totals: dict[str, float] = dict.fromkeys(metrics, 0)
            names = dict(zip((b"Read", b"Write"), metrics, strict=True))
            for row in (line.split() for line in content.splitlines()):
                if len(row) == 3 and row[1] in names and row[0] not in layered:
                    totals[names[row[1]]] += int(row[2])
            return totals

        return parse

    return (
        folder("cpuacct").number("cpuacct.usage", "cpu_usage_s", 1e-9),
        folder("cpuacct").file("cpuacct.stat", ("cpu_user_s", "cpu_system_s"), shares),
        folder("cpu").file("cpu.stat", _THROTTLING, throttling),
        folder("memory").number("memory.usage_in_bytes", "mem_used_bytes"),
        folder("memory").number("memory.max_usage_in_bytes", "mem_peak_bytes"),
        folder("memory").file("memory.stat", ("mem_anon_bytes", "mem_file_bytes"), memory),
        folder("blkio").file("blkio.throttle.io_service_bytes_recursive", _IO[:2], requests(_IO[:2])),
        folder("blkio").file("blkio.throttle.io_serviced_recursive", _IO[2:], requests(_IO[2:])),
        folder("pids").number("pids.current", "pids"),
    )


def limits(cgroup: Cgroup) -> dict[str, float]:
    """Return the limits that are set, as metric -> value; what has none is absent."""

    def text(controller: str, name: str) -> str:
        path = cgroup.folders.get(UNIFIED if cgroup.version == 2 else controller)
        try:
            return (path / name).read_text(encoding="ascii").strip() if path else ""
        except OSError:
            return ""

    def number(controller: str, name: str) -> int | None:
        content = text(controller, name)
        value = int(content) if content.isdigit() else _NO_LIMIT
        return value if 0 <= value < _NO_LIMIT else None

    if cgroup.version == 2:
        quota, _, period = text("", "cpu.max").partition(" ")
        memory, pids = number("", "memory.max"), number("", "pids.max")
    else:
        quota, period = text("cpu", "cpu.cfs_quota_us"), text("cpu", "cpu.cfs_period_us")
        memory, pids = number("memory", "memory.limit_in_bytes"), number("pids", "pids.max")
    cpus = int(quota) / int(period) if quota.isdigit() and period.isdigit() else None
    found = {"cpu_limit_cpus": cpus, "mem_limit_bytes": memory, "pids_limit": pids}
    return {metric: value for metric, value in found.items() if value is not None}
