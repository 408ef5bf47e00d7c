"""What machine this is: MLPerf's system description, and facts that decide whether figures can be trusted."""

from __future__ import annotations

import platform
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from harness.cgroups import own_limits
from harness.model.run import EngineInfo, Gpu, Scalar
from harness.system.disk_space import Disk
from harness.system.hardware import (
    GIB,
    caches,
    cpus,
    disks,
    memory_bytes,
    networks,
    number,
    os_release,
    text,
    virtualisation,
)


def system_description(
    gpus: Sequence[Gpu], engine: EngineInfo, software: Mapping[str, str], root: Path = Path("/")
) -> dict[str, str]:
    """Return those fields of MLPerf's system description that a machine may tell; "" where this one does not.

    Args:
        software: what the workloads run in; "framework" goes to that field, all else to the stack.
    """
    cpu = cpus(root)
    memory = memory_bytes(root)
    stores = tuple(disks(root))
    hypervisor = virtualisation(root, cpu.flags)
    stack = {"Python": platform.python_version(), engine.name: engine.version}
    if gpus:
        stack |= {"NVIDIA driver": gpus[0].driver_version, "CUDA driver API": gpus[0].cuda_version}
    stack |= {name: value for name, value in software.items() if name != "framework"}
    return {
        "system_name": system_name(root),
        "number_of_nodes": "1",
        "host_processors_per_node": _count(cpu.sockets),
        "host_processor_model_name": cpu.model,
        "host_processor_core_count": _count(cpu.cores),
        "host_processor_vcpu_count": _count(cpu.threads),
        "host_processor_frequency": f"{cpu.mhz} MHz" if cpu.mhz else "",
        "host_processor_caches": caches(root),
        "host_memory_capacity": _gib(memory),
        "host_storage_type": ", ".join(sorted({kind for _, kind, _ in stores})),
        "host_storage_capacity": ", ".join(f"{name} {_gib(size_bytes)}" for name, _, size_bytes in stores),
        "host_networking": networks(root),
        "hw_notes": f"virtual machine, {hypervisor}" if hypervisor else "",
        **_accelerators(gpus),
        "framework": software.get("framework", ""),
        "other_software_stack": ", ".join(f"{name} {value}" for name, value in stack.items() if value),
        "operating_system": " ".join(filter(None, (os_release(root), _kernel(root)))),
    }


def _accelerators(gpus: Sequence[Gpu]) -> dict[str, str]:
    if not gpus:
        return {"accelerators_per_node": "0"}
    first = gpus[0]
    pcie = f"PCIe {first.pcie_gen}.0 x{first.pcie_width}" if first.pcie_gen and first.pcie_width else ""
    return {
        "accelerators_per_node": str(len(gpus)),
        "accelerator_model_name": ", ".join(dict.fromkeys(gpu.name for gpu in gpus)),
        "accelerator_host_interconnect": pcie,
        "accelerator_frequency": f"{first.clock_max_sm_mhz} MHz" if first.clock_max_sm_mhz else "",
        "accelerator_memory_capacity": _gib(first.memory_bytes),
    }


def host_facts(root: Path = Path("/"), folder: Path = Path()) -> dict[str, Scalar]:
    """Return what is known of the host's state; a fact that cannot be found out is absent.

    Args:
        folder: whose disk's free space counts, where runs are written; it need not exist yet.
    """
    cpu = cpus(root)
    cgroup_version, limits = own_limits(root)
    cores = root / "sys/devices/system/cpu"
    load = text(root / "proc/loadavg").split()
    thp = re.search(r"\[(\w+)\]", text(root / "sys/kernel/mm/transparent_hugepage/enabled"))
    libc, libc_version = platform.libc_ver()
    result: dict[str, Scalar | None] = {
        "kernel": _kernel(root) or None,
        "boot_id": text(root / "proc/sys/kernel/random/boot_id") or None,
        "python": platform.python_version(),
        "libc": f"{libc} {libc_version}".strip() or None,
        "cpus": cpu.threads or None,
        "cpu_governor": text(cores / "cpu0/cpufreq/scaling_governor") or None,
        "cpu_driver": text(cores / "cpu0/cpufreq/scaling_driver") or None,
        "turbo": _turbo(cores),
        "smt": _flag(cores / "smt/active"),
        "mitigations": _mitigations(cores / "vulnerabilities"),
        "transparent_hugepages": thp[1] if thp else None,
        "numa_nodes": len(list(root.glob("sys/devices/system/node/node[0-9]*"))) or None,
        "hypervisor": virtualisation(root, cpu.flags) or None,
        "clock_source": text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource")
        or None,
        "memory_bytes": memory_bytes(root),
        "cgroup_version": cgroup_version,
        "own_cpu_limit_cpus": limits.cpus,
        "own_memory_limit_bytes": limits.memory_bytes,
        "free_disk_bytes": disk_of(folder).free_bytes,
        "load_1min": float(load[0]) if load else None,
    }
    return {name: value for name, value in result.items() if value is not None}


def disk_of(folder: Path) -> Disk:
    """Return the disk where a folder is, or will be made.

    A folder below one that only root may look into is on that one's disk, as far as can be told.
    """
    for above in (folder, *folder.parents):
        with suppress(OSError):
            return Disk(
                folder=str(folder), device=above.stat().st_dev, free_bytes=shutil.disk_usage(above).free
            )
    raise FileNotFoundError(folder)


def system_name(root: Path = Path("/")) -> str:
    """Return the machine's make and model, on some clouds the instance type; "" where nothing tells."""
    dmi = root / "sys/class/dmi/id"
    name = " ".join(dict.fromkeys(text(dmi / part) for part in ("sys_vendor", "product_name"))).strip()
    return name or text(root / "sys/firmware/devicetree/base/model")


def _kernel(root: Path) -> str:
    return text(root / "proc/sys/kernel/osrelease")


def _flag(path: Path) -> bool | None:
    value = number(path)
    return None if value is None else bool(value)


def _turbo(cores: Path) -> bool | None:
    boost = _flag(cores / "cpufreq/boost")
    if boost is not None:
        return boost
    disabled = _flag(cores / "intel_pstate/no_turbo")
    return None if disabled is None else not disabled


def _mitigations(folder: Path) -> str | None:
    """Sum up the kernel's word on each known flaw: mitigations cost speed, and two hosts may differ."""
    words = [text(path) for path in sorted(folder.glob("*"))]
    if not words:
        return None
    counts = {
        label: sum(word.startswith(prefix) for word in words)
        for label, prefix in (
            ("mitigated", "Mitigation"),
            ("vulnerable", "Vulnerable"),
            ("not affected", "Not"),
        )
    }
    return ", ".join(f"{count} {label}" for label, count in counts.items() if count)


def _count(value: int) -> str:
    return str(value) if value else ""


def _gib(size_bytes: int | None) -> str:
    return f"{size_bytes / GIB:.1f} GiB" if size_bytes else ""
