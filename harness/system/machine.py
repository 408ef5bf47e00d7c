"""The hardware of this machine and the state of the host; `root` is / except in tests."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil

from harness.engines.owner import boot_id
from harness.model.device import cpu_numbers
from harness.model.run import Scalar

GIB = 1 << 30
# Recognized by name, because virtual disks may report that they rotate.
_DISKS = {"nvme": "NVMe SSD", "vd": "virtual disk", "xvd": "virtual disk"}


def text(path: Path) -> str:
    """Return a file's stripped content; "" if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip("\0 \n\t")
    except OSError:
        return ""


def cpu_governor(root: Path = Path("/")) -> str:
    """Return what sets the clocks of the CPUs, such as "performance"; "" if unknown."""
    return text(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


def numa_nodes(cpus: str) -> tuple[str, ...]:
    """Return the NUMA nodes of the CPUs that containers may use, "" for all of this process; () if unknown."""
    used = set(cpu_numbers(cpus) or os.sched_getaffinity(0))
    found = {
        path.parent.name.removeprefix("node"): cpu_numbers(text(path))
        for path in Path("/sys/devices/system/node").glob("node[0-9]*/cpulist")
    }
    return tuple(sorted((node for node, own in found.items() if used.intersection(own)), key=int))


def huge_pages(root: Path = Path("/")) -> str | None:
    """Return the kernel's choice for transparent huge pages; None if unknown."""
    chosen = re.search(r"\[(\w+)\]", text(root / "sys/kernel/mm/transparent_hugepage/enabled"))
    return chosen[1] if chosen else None


def lscpu() -> dict[str, str]:
    """Return lscpu's fields; {} if lscpu is not available."""
    try:
        lines = subprocess.run(
            ["lscpu"], capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}, check=True
        ).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return {}
    return {field: value.strip() for field, _, value in (line.partition(":") for line in lines)}


def _model_name(cpu: Mapping[str, str]) -> str:
    """Return a CPU's name, with its numbers where the hypervisor hides the model: "AMD EPYC (family 26, model 2)"."""
    name, numbers = cpu.get("Model name", ""), [cpu.get(field) for field in ("CPU family", "Model")]
    hidden = name and all(numbers) and not re.search(r"\d", name.partition("@")[0])
    return f"{name} (family {numbers[0]}, model {numbers[1]})" if hidden else name


def system_description(root: Path = Path("/")) -> dict[str, str]:
    """Return the fields of MLPerf's system description that GPUs and host facts do not have; "" if unknown."""
    cpu, frequency = lscpu(), psutil.cpu_freq()
    disks = tuple(_disks(root))
    caches = {name.removesuffix(" cache"): size for name, size in cpu.items() if name.endswith(" cache")}
    try:
        distribution = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, UnicodeError):
        distribution = ""
    dmi = root / "sys/class/dmi/id"
    return {
        # On some clouds this is the instance type.
        "system_name": f"{text(dmi / 'sys_vendor')} {text(dmi / 'product_name')}".strip(),
        "host_processors_per_node": cpu.get("Socket(s)", ""),
        "host_processor_model_name": _model_name(cpu),
        "host_processor_core_count": str(psutil.cpu_count(logical=False) or ""),
        "host_processor_vcpu_count": str(psutil.cpu_count() or ""),
        "host_processor_frequency": f"{frequency.max or frequency.current:.0f} MHz" if frequency else "",
        "host_processor_caches": ", ".join(f"{name} {size}" for name, size in caches.items()),
        "host_memory_capacity": f"{psutil.virtual_memory().total / GIB:.1f} GiB",
        "host_storage_type": ", ".join(sorted({kind for _, kind, _ in disks})),
        "host_storage_capacity": ", ".join(
            f"{name} {size_bytes / GIB:.1f} GiB" for name, _, size_bytes in disks
        ),
        "host_networking": _networks(root),
        "operating_system": f"{distribution} {platform.release()}".strip(),
    }


def host_facts(root: Path = Path("/")) -> dict[str, Scalar]:
    """Return the state of the host, without unavailable facts."""
    cpu = lscpu()
    cores = root / "sys/devices/system/cpu"
    result: dict[str, Scalar | None] = {
        "kernel": platform.release(),
        "boot_id": boot_id(),
        "python": platform.python_version(),
        "libc": " ".join(platform.libc_ver()).strip() or None,
        "cpus": psutil.cpu_count(),
        "cpu_governor": cpu_governor(root) or None,
        "cpu_driver": text(cores / "cpu0/cpufreq/scaling_driver") or None,
        "turbo": _turbo(cores),
        "smt": {"0": False, "1": True}.get(text(cores / "smt/active")),
        "mitigations": _mitigations(cpu) or None,
        "transparent_hugepages": huge_pages(root),
        "numa_nodes": int(cpu.get("NUMA node(s)", 0)) or None,
        "hypervisor": cpu.get("Hypervisor vendor"),
        "clock_source": text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource")
        or None,
        "memory_bytes": psutil.virtual_memory().total,
    }
    return {name: value for name, value in result.items() if value is not None}


def _mitigations(cpu: Mapping[str, str]) -> str:
    """Count CPU vulnerabilities by state, because mitigations reduce speed."""
    states = (state for name, state in cpu.items() if name.startswith("Vulnerability"))
    counts = Counter(
        re.split("[:;]", state)[0].lower().replace("mitigation", "mitigated") for state in states
    )
    return ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))


def _turbo(cores: Path) -> bool | None:
    """Return whether CPUs may exceed their nominal frequency; Intel's driver reports the opposite."""
    disabled = text(cores / "intel_pstate/no_turbo")
    return {"0": False, "1": True}.get(text(cores / "cpufreq/boost"), {"0": True, "1": False}.get(disabled))


def _disks(root: Path) -> Iterator[tuple[str, str, int]]:
    """Yield the name, kind and size in bytes of physical and virtual disks, sorted by name."""
    for folder in sorted(root.glob("sys/block/*")):
        sectors = int(text(folder / "size") or 0)
        if not sectors or not (folder / "device").exists() or folder.name.startswith("sr"):
            continue
        rotational = text(folder / "queue/rotational") == "1"
        kinds = (kind for prefix, kind in _DISKS.items() if folder.name.startswith(prefix))
        yield folder.name, next(kinds, "hard disk" if rotational else "SSD"), sectors * 512


def _networks(root: Path) -> str:
    """Count physical network interfaces by speed, e.g. "2x 25 Gb/s"."""
    result: Counter[str] = Counter()
    for folder in root.glob("sys/class/net/*"):
        if (folder / "device").exists():
            mbit = text(folder / "speed")
            result[f"{int(mbit) / 1000:g} Gb/s" if mbit.isdigit() else "unknown speed"] += 1
    return ", ".join(f"{count}x {speed}" for speed, count in sorted(result.items()))
