"""The host's description, read from made-up trees and from the machine that the tests run on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.system.hardware import cpus, disks, networks, virtualisation
from harness.system.machine import disk_of, host_facts, system_description
from tests.builders import gpu, manifest

CPUINFO = """CPU\t: {n}
model name\t: AMD EPYC 9354 32-Core CPU
cpu MHz\t\t: 3249.998
physical id\t: {socket}
core id\t\t: {core}
flags\t\t: fpu vme {extra}
"""


def write(root: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return root


@pytest.fixture
def server(tmp_path: Path) -> Path:
    """Two sockets of two cores of two threads, two NVMe disks, 2x 25 Gb/s, under KVM."""
    blocks = [CPUINFO.format(n=n, socket=n // 2 % 2, core=n % 2, extra="hypervisor") for n in range(8)]
    files = {
        "proc/cpuinfo": "\n".join(blocks),
        "proc/meminfo": "MemTotal:       131923456 kB\nMemFree: 1 kB\n",
        "proc/loadavg": "1.25 0.80 0.40 2/345 6789\n",
        "proc/sys/kernel/osrelease": "6.12.0-amd64\n",
        "proc/sys/kernel/random/boot_id": "11111111-2222-3333-4444-555555555555\n",
        "etc/os-release": 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 13 (trixie)"\n',
        "sys/devices/system/cpu/smt/active": "1\n",
        "sys/devices/system/cpu/cpufreq/boost": "0\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
        "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq": "3800000\n",
        "sys/devices/system/cpu/cpu0/cache/index0/level": "1\n",
        "sys/devices/system/cpu/cpu0/cache/index0/type": "Data\n",
        "sys/devices/system/cpu/cpu0/cache/index0/size": "32K\n",
        "sys/devices/system/cpu/vulnerabilities/meltdown": "Not affected\n",
        "sys/devices/system/cpu/vulnerabilities/spectre_v2": "Mitigation: Retpolines\n",
        "sys/devices/system/cpu/vulnerabilities/mmio": "Vulnerable: no microcode\n",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        "sys/devices/system/node/node0/cpulist": "0-3\n",
        "sys/devices/system/node/node1/cpulist": "4-7\n",
        "sys/block/nvme0n1/size": "2000409264\n",
        "sys/block/nvme0n1/queue/rotational": "0\n",
        "sys/block/sda/size": "2000409264\n",
        "sys/block/sda/queue/rotational": "1\n",
        "sys/block/loop0/size": "100\n",
        "sys/class/net/eth0/speed": "25000\n",
        "sys/class/net/eth0/device/vendor": "0x15b3\n",
        "sys/class/net/eth1/speed": "25000\n",
        "sys/class/net/eth1/device/vendor": "0x15b3\n",
        "sys/class/net/docker0/speed": "10000\n",
        "sys/class/dmi/id/sys_vendor": "Amazon EC2\n",
        "sys/class/dmi/id/product_name": "p5en.48xlarge\n",
    }
    return write(tmp_path, files)


def test_description_has_the_fields_of_mlperf(server: Path) -> None:
    about = system_description((gpu(0), gpu(1)), manifest(gpus=2).engine, {"cpu": "tfbench:cpu-1"}, server)
    assert about["system_name"] == "Amazon EC2 p5en.48xlarge"
    assert about["host_processors_per_node"] == "2"
    assert about["host_processor_core_count"] == "4"
    assert about["host_processor_vcpu_count"] == "8"
    assert about["host_processor_frequency"] == "3800 MHz"
    assert about["host_processor_caches"] == "L1d 32K"
    assert about["host_memory_capacity"] == "125.8 GiB"
    assert about["host_storage_type"] == "NVMe SSD, hard disk"
    assert about["host_storage_capacity"] == "nvme0n1 953.9 GiB, sda 953.9 GiB"
    assert about["host_networking"] == "2x 25 Gb/s"
    assert about["accelerators_per_node"] == "2"
    assert about["accelerator_model_name"] == "NVIDIA H200"
    assert about["accelerator_host_interconnect"] == "PCIe 5.0 x16"
    assert about["accelerator_memory_capacity"] == "140.4 GiB"
    assert about["hw_notes"] == "virtual machine, KVM (Amazon EC2)"
    assert about["operating_system"] == "Debian GNU/Linux 13 (trixie) 6.12.0-amd64"
    assert "NVIDIA driver 580.95.05" in about["other_software_stack"]
    assert "tfbench:cpu-1" in about["other_software_stack"]
    assert "cooling" not in about


def test_what_a_card_does_not_say_stays_empty(server: Path) -> None:
    silent = replace(gpu(), memory_bytes=None, pcie_gen=None, clock_max_sm_mhz=None)
    about = system_description((silent,), manifest(gpus=1).engine, {}, server)
    assert about["accelerator_memory_capacity"] == ""
    assert about["accelerator_host_interconnect"] == ""
    assert about["accelerator_frequency"] == ""


def test_an_empty_tree_gives_empty_fields_and_absent_facts(tmp_path: Path) -> None:
    about = system_description((), manifest().engine, {}, tmp_path)
    assert {field for field, value in about.items() if value} == {
        "number_of_nodes",
        "accelerators_per_node",
        "other_software_stack",
    }
    assert about["accelerators_per_node"] == "0"
    facts = host_facts(tmp_path, tmp_path)
    assert not facts.keys() & {
        "turbo",
        "smt",
        "cpu_governor",
        "load_1min",
        "hypervisor",
        "own_cpu_limit_cpus",
    }


def test_facts_of_a_server(server: Path) -> None:
    facts = host_facts(server, server)
    assert facts["cpu_governor"] == "powersave"
    assert facts["turbo"] is False
    assert facts["smt"] is True
    assert facts["mitigations"] == "1 mitigated, 1 vulnerable, 1 not affected"
    assert facts["transparent_hugepages"] == "madvise"
    assert facts["numa_nodes"] == 2
    assert facts["hypervisor"] == "KVM (Amazon EC2)"
    assert facts["load_1min"] == 1.25
    assert facts["boot_id"] == "11111111-2222-3333-4444-555555555555"
    assert isinstance(facts["free_disk_bytes"], int)


def test_intel_turbo_is_the_negation_of_no_turbo(tmp_path: Path) -> None:
    write(tmp_path, {"sys/devices/system/cpu/intel_pstate/no_turbo": "0\n"})
    assert host_facts(tmp_path, tmp_path)["turbo"] is True


def test_the_topology_counts_where_cpuinfo_hides_cores(server: Path) -> None:
    topology = {
        f"sys/devices/system/cpu/cpu{n}/topology/{name}": value
        for n in range(8)
        for name, value in (("physical_package_id", "0"), ("core_id", str(n)))
    }
    result = cpus(write(server, topology))
    assert (result.sockets, result.cores, result.threads) == (1, 8, 8)


def test_nominal_clock_from_the_model_name_when_there_is_no_cpufreq(tmp_path: Path) -> None:
    write(tmp_path, {"proc/cpuinfo": "CPU\t: 0\nmodel name\t: Xeon @ 2.10GHz\ncpu MHz\t\t: 3100.0\n"})
    assert cpus(tmp_path).mhz == 2100


def test_bare_metal_has_no_hypervisor(server: Path) -> None:
    assert virtualisation(server, frozenset({"fpu"})) == ""


def test_mappings_and_memory_disks_are_no_disks(server: Path) -> None:
    assert [name for name, _, _ in disks(server)] == ["nvme0n1", "sda"]


def test_interfaces_without_a_link_speed_are_counted_apart(server: Path) -> None:
    write(server, {"sys/class/net/eth1/speed": "-1\n"})
    assert networks(server) == "1x 25 Gb/s, 1x of unknown speed"


def test_this_machine() -> None:
    about = system_description((), manifest().engine, {})
    assert int(about["host_processor_vcpu_count"]) >= int(about["host_processor_core_count"]) >= 1
    assert about["host_memory_capacity"].endswith("GiB")
    assert host_facts()["kernel"]


def test_the_disk_of_a_folder_that_is_not_made_yet(tmp_path: Path) -> None:
    disk = disk_of(tmp_path / "not/there")
    assert disk.device == tmp_path.stat().st_dev
    assert disk.free_bytes > 0
    assert disk.folder == str(tmp_path / "not/there")
