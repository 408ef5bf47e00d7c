"""The sources about the machine: "host" (/proc), "cpufreq" (CPU clocks) and "rapl" (energy of CPU packages)."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil

from harness.telemetry import GapSink, Sample, Target
from harness.telemetry.kernel_files import FileReading, FileSource, KernelFile, Values, pressure

HOST, CORES = "host", "cores"
_NO_PRESSURE = "This kernel provides no pressure information (boot it with psi=1)."
_MEMORY = re.compile(rb"^(MemTotal|MemAvailable|Buffers|Cached|SwapTotal|SwapFree):\s+(\d+)", re.MULTILINE)
_CLOCKS = ("cpu_freq_mhz", "cpu_freq_min_mhz", "cpu_freq_max_mhz")
_THROTTLE = "cpu_throttle_events"


class HostSource(FileSource):
    """CPUs, memory, disks, network, pressure and load of this machine."""

    name = "host"

    def start(self, target: Target, gap: GapSink) -> Mapping[str, Sequence[str]]:
        """Open the files; a missing file is reported as a gap."""
        self._cpus = _Cpus()
        return {**super().start(target, gap), CORES: self._cpus.core_metrics()}

    def read(self) -> Iterable[Sample]:
        """Read every file once."""
        for sample in super().read():
            yield sample
            if self._cpus.cores:
                yield replace(sample, device=CORES, values=self._cpus.cores)

    def readings(self, target: Target, gap: GapSink) -> Mapping[str, Sequence[FileReading]]:
        """Return the files under /proc."""
        proc, sys = self._root / "proc", self._root / "sys"
        memory = ("mem_used_bytes", "mem_available_bytes", "mem_cached_bytes", "swap_used_bytes")
        readings = (
            FileReading(
                path=proc / "stat", metrics=_Cpus.METRICS, parse=self._cpus.parse, first_is_complete=False
            ),
            FileReading(path=proc / "meminfo", metrics=memory, parse=_memory),
            FileReading(
                path=proc / "loadavg",
                metrics=("load1",),
                parse=lambda content: {"load1": float(content.split(None, 1)[0])},
            ),
            _disks(proc / "diskstats", sys),
            _network(proc / "self/net/dev", sys),
            pressure(proc / "pressure/cpu", "cpu", ("some",), _NO_PRESSURE),
            pressure(proc / "pressure/memory", "mem", ("some", "full"), _NO_PRESSURE),
            pressure(proc / "pressure/io", "io", ("some", "full"), _NO_PRESSURE),
        )
        return {HOST: readings}


class _Cpus:
    """Parser of /proc/stat: shares of CPU time, in total and per CPU, and context switches."""

    METRICS = ("cpu_util_pct", "cpu_user_pct", "cpu_system_pct", "cpu_iowait_pct", "cpu_steal_pct",
               "context_switches", "procs_running")  # fmt: skip

    def __init__(self) -> None:
        self._last: dict[bytes, tuple[int, ...]] = {}
        self.cores: Values = {}

    def core_metrics(self) -> tuple[str, ...]:
        """Return the metrics of `cores`; CPUs that come online later are not included."""
        return tuple(_core_metric(name) for name in self._last if name != b"cpu")

    def parse(self, content: bytes) -> Values:
        """Parse /proc/stat and set `cores` to the utilisation of each CPU."""
        # The line after the CPUs is long: it has one number per interrupt.
        cpus, _, rest = content.partition(b"intr ")
        rows = {
            name: tuple(map(int, counts)) for name, *counts in (line.split() for line in cpus.splitlines())
        }
        if not self._last:
            self._last = dict.fromkeys(rows, ())
        shares = {name: _shares(self._last[name], row) for name, row in rows.items() if name in self._last}
        self._last |= {name: rows[name] for name in shares}
        self.cores = {
            _core_metric(name): share["cpu_util_pct"]
            for name, share in shares.items()
            if name != b"cpu" and share
        }
        counts = dict(line.split(None, 2)[:2] for line in rest.splitlines()[1:])
        return {
            **shares[b"cpu"],
            "context_switches": int(counts[b"ctxt"]),
            "procs_running": int(counts[b"procs_running"]),
        }


def _core_metric(name: bytes) -> str:
    return f"core{name[3:].decode()}_util_pct"


def _shares(before: tuple[int, ...], after: tuple[int, ...]) -> Values:
    # The last two fields, guest time, are included in the first two.
    total = sum(after[:8]) - sum(before[:8])
    if not before or total <= 0:
        return {}
    # Counters may decrease by a tick (iowait, and idle after a CPU was offline).
    user, nice, system, idle, iowait, irq, softirq, steal = (
        100.0 * max(0, b - a) / total for a, b in zip(before[:8], after[:8], strict=True)
    )
    return {
        "cpu_util_pct": round(max(0.0, 100.0 - idle - iowait), 2),
        "cpu_user_pct": round(user + nice, 2),
        "cpu_system_pct": round(system + irq + softirq, 2),
        "cpu_iowait_pct": round(iowait, 2),
        "cpu_steal_pct": round(steal, 2),
    }


def _memory(content: bytes) -> Values:
    result = {name: int(kib) * 1024 for name, kib in _MEMORY.findall(content)}
    return {
        "mem_used_bytes": result[b"MemTotal"] - result[b"MemAvailable"],
        "mem_available_bytes": result[b"MemAvailable"],
        "mem_cached_bytes": result[b"Buffers"] + result[b"Cached"],
        "swap_used_bytes": result[b"SwapTotal"] - result[b"SwapFree"],
    }


def _disks(path: Path, sys: Path) -> FileReading:
    """Return the reading of bytes read from and written to physical disks."""
    # In memory, optical, or layered over other disks, whose traffic would be counted twice.
    names = _names(
        sys / "block", lambda folder: not folder.name.startswith(("loop", "ram", "zram", "dm-", "md", "sr"))
    )
    line = _any_of(r"^ *\d+ +\d+ (?:NAMES) \d+ \d+ (\d+) \d+ \d+ \d+ (\d+)", names)
    metrics = ("disk_read_bytes", "disk_write_bytes")

    def parse(content: bytes) -> Values:
        if not names:
            raise FileNotFoundError
        rows = line.findall(content)
        # 512 bytes are the kernel's unit for all devices.
        return {name: 512 * sum(int(row[at]) for row in rows) for at, name in enumerate(metrics)}

    return FileReading(
        path=path, metrics=metrics, parse=parse, missing="The kernel reports no physical disk."
    )


def _network(path: Path, sys: Path) -> FileReading:
    """Return the reading of bytes through loopback and physical interfaces, or all if none is physical."""
    interfaces = _names(sys / "class/net", lambda folder: folder.name != "lo")
    names = [name for name in interfaces if (sys / "class/net" / name / "device").exists()] or interfaces
    line = _any_of(r"^ *(NAMES): *(\d+)(?: +\d+){7} +(\d+)", ["lo", *names])

    def parse(content: bytes) -> Values:
        rows = {name: (int(received), int(sent)) for name, received, sent in line.findall(content)}
        values: Values = {"loopback_bytes": rows.pop(b"lo", (0, 0))[1]}
        if rows:
            values["net_recv_bytes"], values["net_sent_bytes"] = map(sum, zip(*rows.values(), strict=True))
        return values

    return FileReading(path=path, metrics=("net_recv_bytes", "net_sent_bytes", "loopback_bytes"), parse=parse)


def _any_of(line: str, names: Collection[str]) -> re.Pattern[bytes]:
    return re.compile(line.replace("NAMES", "|".join(map(re.escape, names))).encode(), re.MULTILINE)


def _names(folder: Path, included: Callable[[Path], bool]) -> list[str]:
    return [entry.name for entry in folder.iterdir() if included(entry)] if folder.is_dir() else []


def _clocks_mhz() -> Sequence[float]:
    return [each.current for each in psutil.cpu_freq(percpu=True)]


class FrequencySource:
    """Clocks of all logical CPUs in MHz, read once a second with `clocks`, and throttling events."""

    name = "cpufreq"
    interval_s: float | None = 1.0

    def __init__(self, root: Path = Path("/"), clocks: Callable[[], Sequence[float]] = _clocks_mhz) -> None:
        self._root = root
        self._clocks = clocks
        self._throttle: list[KernelFile] = []

    def start(self, target: Target, gap: GapSink) -> Mapping[str, Sequence[str]]:
        """Find the available files; virtual machines often hide clocks and throttling."""
        paths = sorted(
            (self._root / "sys/devices/system/cpu").glob("cpu[0-9]*/thermal_throttle/core_throttle_count")
        )
        for path in paths:
            with suppress(OSError):
                self._throttle.append(KernelFile(path))
        values = self._values()
        for metric in {*_CLOCKS, _THROTTLE} - values.keys():
            gap("host", metric, "This machine does not report CPU clocks or throttling.")
        return {"host": tuple(values)}

    def read(self) -> Iterable[Sample]:
        """Read all clocks and counters."""
        now_ns = time.monotonic_ns()
        if values := self._values():
            yield Sample(t_ns=now_ns, device="host", values=values)

    def _values(self) -> Mapping[str, float]:
        try:
            clocks = [clock for clock in self._clocks() if clock > 0]
        except (OSError, NotImplementedError, AttributeError):
            clocks = []
        result = (sum(clocks) / len(clocks), min(clocks), max(clocks)) if clocks else ()
        values = dict(zip(_CLOCKS, (round(mhz, 1) for mhz in result), strict=False))
        if self._throttle:
            values[_THROTTLE] = sum(int(file.read()) for file in self._throttle)
        return values

    def stop(self) -> None:
        """Close the files."""
        for file in self._throttle:
            file.close()
        self._throttle = []


class _Counter:
    """Joules since the first reading. Handles the kernel counter's overflow, within minutes on some CPUs."""

    def __init__(self, range_uj: int) -> None:
        self._range_uj = range_uj
        self._last_uj: int | None = None
        self._total_uj = 0

    def parse(self, content: bytes) -> Values:
        now_uj = int(content)
        last_uj = now_uj if self._last_uj is None else self._last_uj
        self._total_uj += (now_uj - last_uj) % (self._range_uj + 1)
        self._last_uj = now_uj
        return {"energy_j": self._total_uj / 1e6}


class RaplSource(FileSource):
    """Energy counters: one device per package ("package0") and per domain in it ("package0_dram")."""

    name = "rapl"

    def readings(self, target: Target, gap: GapSink) -> Mapping[str, Sequence[FileReading]]:
        """Return the counters that this user may read."""
        # AMD CPUs use the same name.
        folders = sorted((self._root / "sys/class/powercap").glob("intel-rapl:*"))
        if not folders:
            gap("*", "*", "This machine has no RAPL counters; virtual machines hide them.")
        names: dict[str, str] = {}
        result: dict[str, Sequence[FileReading]] = {}
        for folder in folders:
            path = folder / "energy_uj"
            try:
                name = (folder / "name").read_text(encoding="ascii").strip().replace("-", "")
                parent = names.get(folder.name.rpartition(":")[0], "")
                names[folder.name] = device = f"{parent}_{name}" if parent else name
                counter = _Counter(int((folder / "max_energy_range_uj").read_text(encoding="ascii")))
                path.read_bytes()
            except PermissionError:
                device = names.get(folder.name, folder.name.replace("-", ""))
                gap(device, "energy_j", f"Only root may read {path}. Run: chmod o+r {path}.")
            except (OSError, ValueError) as error:
                gap(folder.name.replace("-", ""), "energy_j", f"{folder} cannot be read: {error}.")
            else:
                result[device] = (FileReading(path=path, metrics=("energy_j",), parse=counter.parse),)
        return result
