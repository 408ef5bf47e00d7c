"""What the kernel's files say about this machine; every reader gives an empty value where a file is missing.

All take `root`, so that a made-up tree can stand in for /.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

GIB = 1 << 30
_DMI_VIRTUAL = {
    "qemu": "KVM (QEMU)",
    "kvm": "KVM",
    "amazon ec2": "KVM (Amazon EC2)",
    "google": "KVM (Google Compute Engine)",
    "microsoft corporation": "Hyper-V",
    "vmware": "VMware",
    "innotek": "VirtualBox",
    "xen": "Xen",
    "openstack": "KVM (OpenStack)",
}


def text(path: Path) -> str:
    """Return a file's stripped content, "" when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip("\0 \n\t")
    except OSError:
        return ""


def number(path: Path) -> int | None:
    """Return a file's content as a whole number, None when it is none."""
    content = text(path)
    return int(content) if re.fullmatch(r"-?\d+", content) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cpus:
    """The host's CPUs: `cores` and `threads` over all sockets, 0 where unknown; `mhz` nominal."""

    model: str
    sockets: int
    cores: int
    threads: int
    mhz: int | None
    flags: frozenset[str]


def cpus(root: Path) -> Cpus:
    """Read /proc/cpuinfo, and the topology from /sys, which is right where virtual machines hide cores."""
    entries = [
        dict(re.findall(r"^([^\t:]+?)\s*:[ \t]*(.*)$", block, re.MULTILINE))
        for block in text(root / "proc/cpuinfo").split("\n\n")
    ]
    entries = [entry for entry in entries if "processor" in entry or "model name" in entry]
    first = entries[0] if entries else {}
    topology = {
        (text(folder / "physical_package_id"), text(folder / "core_id"))
        for folder in root.glob("sys/devices/system/cpu/cpu[0-9]*/topology")
    }
    if not topology:
        topology = {(entry.get("physical id", ""), entry.get("core id", "")) for entry in entries}
    return Cpus(
        model=first.get("model name") or text(root / "sys/firmware/devicetree/base/model"),
        sockets=len({package for package, _ in topology}),
        cores=len(topology),
        threads=len(entries),
        mhz=_nominal_mhz(root, first),
        flags=frozenset((first.get("flags") or first.get("Features") or "").split()),
    )


def _nominal_mhz(root: Path, entry: dict[str, str]) -> int | None:
    cpufreq = root / "sys/devices/system/cpu/cpu0/cpufreq"
    for name in ("base_frequency", "cpuinfo_max_freq"):
        khz = number(cpufreq / name)
        if khz:
            return round(khz / 1000)
    named = re.search(r"@ ([\d.]+)GHz", entry.get("model name", ""))
    if named:
        return round(float(named[1]) * 1000)
    current = entry.get("cpu MHz", "")
    return round(float(current)) if re.fullmatch(r"[\d.]+", current) else None


def caches(root: Path) -> str:
    """Describe the first CPU's caches, e.g. "L1d 48K, L1i 32K, L2 2048K, L3 107520K"."""
    result = []
    for folder in sorted(root.glob("sys/devices/system/cpu/cpu0/cache/index*")):
        kind = {"Data": "d", "Instruction": "i"}.get(text(folder / "type"), "")
        if size := text(folder / "size"):
            result.append(f"L{text(folder / 'level')}{kind} {size}")
    return ", ".join(result)


def memory_bytes(root: Path) -> int | None:
    """Return MemTotal, which is what the kernel has after its own reservations."""
    result = re.search(r"^MemTotal:\s+(\d+) kB", text(root / "proc/meminfo"), re.MULTILINE)
    return int(result[1]) * 1024 if result else None


def disks(root: Path) -> Iterator[tuple[str, str, int]]:
    """Yield name, kind and size in bytes of the whole disks that the kernel knows, in the order of their names."""
    for folder in sorted(root.glob("sys/block/*")):
        sectors = number(folder / "size")
        if not sectors or folder.name.startswith(("loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd")):
            continue
        kind = "hard disk" if text(folder / "queue/rotational") == "1" else "SSD"
        if folder.name.startswith("nvme"):
            kind = "NVMe SSD"
        elif folder.name.startswith(("vd", "xvd")):
            kind = "virtual disk"
        yield folder.name, kind, sectors * 512


def networks(root: Path) -> str:
    """Describe the physical network interfaces by speed, e.g. "2x 25 Gb/s"."""
    result: Counter[str] = Counter()
    for folder in root.glob("sys/class/net/*"):
        if (folder / "device").exists():
            speed = number(folder / "speed")
            result[f"{speed / 1000:g} Gb/s" if speed and speed > 0 else "of unknown speed"] += 1
    return ", ".join(f"{count}x {speed}" for speed, count in sorted(result.items()))


def virtualisation(root: Path, flags: frozenset[str]) -> str:
    """Name the hypervisor that this machine runs under; "" when nothing shows one."""
    dmi = root / "sys/class/dmi/id"
    maker = " ".join(text(dmi / name) for name in ("sys_vendor", "product_name", "bios_vendor")).lower()
    xen = text(root / "sys/hypervisor/type")
    if "hypervisor" not in flags and not xen:
        return ""
    named = next((name for key, name in _DMI_VIRTUAL.items() if key in maker), "")
    return named or xen.capitalize() or "a hypervisor of unknown kind"


def os_release(root: Path) -> str:
    """Return the distribution's own name for itself."""
    for path in (root / "etc/os-release", root / "usr/lib/os-release"):
        result = re.search(r'^PRETTY_NAME="?(.*?)"?$', text(path), re.MULTILINE)
        if result:
            return result[1]
    return ""
