import os
from pathlib import Path

import pytest

from harness.paths import Paths
from harness.progress import Silent
from harness.system.doctor_checks import State, disk_checks, examine
from harness.system.machine import host_facts, system_description
from tests.conftest import ROOT
from tests.folders import write_files

LSCPU = """#!/bin/sh
cat <<END
CPU(s):                                  8
Model name:                              AMD EPYC 9354 32-Core CPU
Socket(s):                               2
Hypervisor vendor:                       KVM
L1d cache:                               32 KiB (1 instance)
NUMA node(s):                            2
Vulnerability Meltdown:                  Not affected
Vulnerability Spectre v2:                Mitigation; Retpolines
Vulnerability Mmio stale data:           Vulnerable: no microcode
END
"""


@pytest.fixture
def lscpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replace lscpu with a script that reports two sockets under KVM; return its path."""
    command = write_files(tmp_path, {"bin/lscpu": LSCPU}) / "bin/lscpu"
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:/usr/bin:/bin")
    return command


@pytest.fixture
def server(tmp_path: Path, lscpu: Path) -> Path:
    """A tree with an NVMe SSD, a hard disk, and two 25 Gb/s interfaces."""
    files = {
        "sys/devices/system/cpu/smt/active": "1\n",
        "sys/devices/system/cpu/cpufreq/boost": "0\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        "sys/block/nvme0n1/size": "2000409264\n",
        "sys/block/nvme0n1/device/model": "fast\n",
        "sys/block/sda/size": "2000409264\n",
        "sys/block/sda/device/model": "slow\n",
        "sys/block/sda/queue/rotational": "1\n",
        "sys/block/loop0/size": "100\n",
        "sys/class/net/eth0/speed": "25000\n",
        "sys/class/net/eth0/device/vendor": "0x15b3\n",
        "sys/class/net/eth1/speed": "25000\n",
        "sys/class/net/eth1/device/vendor": "0x15b3\n",
        "sys/class/net/eth2/speed": "-1\n",
        "sys/class/net/eth2/device/vendor": "0x15b3\n",
        "sys/class/net/docker0/speed": "10000\n",
        "sys/class/dmi/id/sys_vendor": "Amazon EC2\n",
        "sys/class/dmi/id/product_name": "p5en.48xlarge\n",
    }
    return write_files(tmp_path, files)


def test_system_description(server: Path) -> None:
    assert system_description(server).items() >= {
        "system_name": "Amazon EC2 p5en.48xlarge", "host_processors_per_node": "2",
        "host_processor_model_name": "AMD EPYC 9354 32-Core CPU", "host_processor_caches": "L1d 32 KiB (1 instance)",
        "host_storage_type": "NVMe SSD, hard disk",
        "host_storage_capacity": "nvme0n1 953.9 GiB, sda 953.9 GiB",
        "host_networking": "2x 25 Gb/s, 1x unknown speed",
    }.items()  # fmt: skip


def test_unknown_values_are_empty_or_omitted(tmp_path: Path, lscpu: Path) -> None:
    lscpu.write_text("#!/bin/sh\nexit 1\n")
    description = system_description(tmp_path)
    assert {
        description[name] for name in ("host_processor_model_name", "system_name", "host_storage_type")
    } == {""}
    facts = {"turbo", "smt", "cpu_governor", "hypervisor", "mitigations", "numa_nodes"}
    assert not host_facts(tmp_path).keys() & facts


def test_host_facts(server: Path) -> None:
    assert host_facts(server).items() >= {
        "cpu_governor": "powersave", "turbo": False, "smt": True, "transparent_hugepages": "madvise",
        "mitigations": "1 mitigated, 1 not affected, 1 vulnerable", "numa_nodes": 2, "hypervisor": "KVM",
    }.items()  # fmt: skip


def test_turbo_with_intel_driver(tmp_path: Path) -> None:
    write_files(tmp_path, {"sys/devices/system/cpu/intel_pstate/no_turbo": "0\n"})
    assert host_facts(tmp_path)["turbo"] is True


FULL = Path("/proc")  # a disk without space


@pytest.mark.parametrize(
    ("cache", "images", "to_build", "needed"),
    [
        (FULL, FULL, ("cpu", "cuda"), ("5.2 GiB", "16.0 GiB")),
        (FULL, FULL, (), ("0.2 GiB",)),
        (FULL, None, ("cpu",), ("4.2 GiB",)),
        (Path.cwd(), FULL, (), (None,)),
    ],
)
def test_space_needed_on_each_disk(cache, images, to_build, needed):
    checks = list(disk_checks(cache, images, to_build))
    assert [check.state for check in checks] == [State.FAIL if size else State.OK for size in needed]
    assert all(check.remedy.startswith(size or "") for check, size in zip(checks, needed, strict=True))


def test_free_space_with_missing_cache_folder(tmp_path):
    no_engine = {**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    checks = examine(Paths(checkout=ROOT, cache=tmp_path / "not/there"), no_engine, Silent())
    (item,) = [check for check in checks if check.name == "Disk"]
    assert item.fact.endswith(f"free under {tmp_path}/not/there")
