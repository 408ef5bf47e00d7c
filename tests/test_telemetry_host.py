import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.cgroups import locate
from harness.telemetry import Target
from harness.telemetry.container import CgroupSource, ProcessSource
from harness.telemetry.host import FrequencySource, HostSource, RaplSource
from tests.folders import write_files

MEMINFO = """MemTotal:       1000 kB
MemFree:         100 kB
MemAvailable:    600 kB
Buffers:          50 kB
Cached:          250 kB
SwapTotal:       500 kB
SwapFree:        400 kB
"""
PRESSURE = "some avg10=1.0 avg60=0 avg300=0 total=2500000\nfull avg10=0 avg60=0 avg300=0 total=500000\n"


def stat(cpus: tuple[str, str, str], switches: int, running: int) -> str:
    """Return /proc/stat of two CPUs, the first row for both."""
    rows = "".join(f"{name} {row}\n" for name, row in zip(("cpu ", "cpu0", "cpu1"), cpus, strict=True))
    return f"{rows}intr 12345 0 1 2\nctxt {switches}\nbtime 1\nprocesses 9\nprocs_running {running}\n"


IDLE = {
    "proc/stat": stat(("0 0 0 0 0 0 0 0 0 0",) * 3, switches=0, running=1),
    "proc/diskstats": "",
    "proc/self/net/dev": "",
    "proc/meminfo": MEMINFO,
    "proc/loadavg": "0.52 0.40 0.30 2/345 678\n",
    **{f"proc/pressure/{name}": PRESSURE for name in ("cpu", "memory", "io")},
    "sys/block/nvme0n1/size": "", "sys/block/loop0/size": "", "sys/block/dm-0/size": "",
    "sys/class/net/lo/mtu": "", "sys/class/net/eth0/device/vendor": "", "sys/class/net/docker0/mtu": "",
}  # fmt: skip
# Half a second later. CPUs: user nice system idle iowait irq softirq steal, in hundredths of a second.
BUSY = {
    "proc/stat": stat(
        ("20 0 5 60 5 0 5 5 0 0", "20 0 5 10 5 0 5 5 0 0", "0 0 0 50 0 0 0 0 0 0"), switches=1000, running=3
    ),
    "proc/diskstats": """   7       0 loop0 9 0 999999 0 9 0 999999 0 0 0 0
 259       0 nvme0n1 10 0 2048 5 20 0 4096 5 0 0 0 0 0 0 0 0 0
 259       1 nvme0n1p1 10 0 2048 5 20 0 4096 5 0 0 0 0 0 0 0 0 0
 253       0 dm-0 10 0 2048 5 20 0 4096 5 0 0 0 0 0 0 0 0 0
""",
    "proc/self/net/dev": """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs
    lo: 5000 1 0 0 0 0 0 0 5000 1 0 0 0 0 0 0
  eth0: 3000 1 0 0 0 0 0 0 6000 1 0 0 0 0 0 0
docker0: 3000 1 0 0 0 0 0 0 6000 1 0 0 0 0 0 0
""",
}


@pytest.fixture
def root(tmp_path):
    return write_files(tmp_path, IDLE)


def test_cpu_shares_are_since_last_read_and_counters_cumulative(root):
    write_files(root, {name: text for name, text in BUSY.items() if name != "proc/stat"})
    source = HostSource(root)
    columns, gaps = start(source)
    assert gaps == []
    assert not any("util" in name for sample in source.read() for name in sample.values), "no time has passed"
    write_files(root, BUSY)
    host, cores = source.read()
    assert cores.values == {"core0_util_pct": 70.0, "core1_util_pct": 0.0}
    assert host.values == {
        "cpu_util_pct": 35.0, "cpu_user_pct": 20.0, "cpu_system_pct": 10.0, "cpu_iowait_pct": 5.0,
        "cpu_steal_pct": 5.0, "context_switches": 1000, "procs_running": 3, "load1": 0.52,
        "disk_read_bytes": 2048 * 512, "disk_write_bytes": 4096 * 512,
        "net_recv_bytes": 3000, "net_sent_bytes": 6000, "loopback_bytes": 5000,
        "mem_used_bytes": 400 * 1024, "mem_available_bytes": 600 * 1024, "mem_cached_bytes": 300 * 1024,
        "swap_used_bytes": 100 * 1024, "cpu_pressure_some_s": 2.5, "mem_pressure_some_s": 2.5,
        "mem_pressure_full_s": 0.5, "io_pressure_some_s": 2.5, "io_pressure_full_s": 0.5,
    }  # fmt: skip
    assert set(host.values) == set(columns["host"])
    source.stop()
    shutil.rmtree(root / "sys/block/nvme0n1")
    shutil.rmtree(root / "proc/pressure")
    write_files(root, {"proc/self/net/dev": ""})
    columns, gaps = start(HostSource(root))
    reasons = {metric: reason for _, metric, reason in gaps}
    without_psi = {metric for metric, reason in reasons.items() if "psi=1" in reason}
    assert {name for name in reasons if "pressure" in name} == without_psi
    assert len(without_psi) == 5
    assert reasons.keys() >= {"disk_read_bytes", "disk_write_bytes"}
    assert not reasons.keys() & set(columns["host"])


def test_clocks_are_mean_minimum_and_maximum(tmp_path):
    for core, count in enumerate((3, 4)):
        file = f"sys/devices/system/cpu/cpu{core}/thermal_throttle/core_throttle_count"
        write_files(tmp_path, {file: f"{count}\n"})
    source = FrequencySource(tmp_path, lambda: [1000.0, 2000.0, 3000.0])
    columns, gaps = start(source)
    (sample,) = source.read()
    assert sample.values == {
        "cpu_freq_mhz": 2000.0, "cpu_freq_min_mhz": 1000.0, "cpu_freq_max_mhz": 3000.0,
        "cpu_throttle_events": 7,
    }  # fmt: skip
    assert set(columns["host"]) == set(sample.values)
    assert gaps == []
    source.stop()
    source = FrequencySource(tmp_path / "hidden", lambda: [0.0, 0.0])
    _, gaps = start(source)
    assert list(source.read()) == []
    assert {gap[1] for gap in gaps} >= {"cpu_freq_mhz", "cpu_throttle_events"}


def rapl(root: Path, zone: str, name: str, energy: int) -> None:
    files = {"name": name, "max_energy_range_uj": "1000", "energy_uj": str(energy)}
    write_files(root / "sys/class/powercap" / zone, {name: f"{text}\n" for name, text in files.items()})


def test_rapl_energy_handles_counter_overflow(tmp_path):
    columns, gaps = start(RaplSource(tmp_path))
    assert (columns, [gap[:2] for gap in gaps]) == ({}, [("*", "*")])
    rapl(tmp_path, "intel-rapl:0", "package-0", 900)
    rapl(tmp_path, "intel-rapl:0:0", "dram", 0)
    source = RaplSource(tmp_path)
    columns, gaps = start(source)
    assert columns == {"package0": ("energy_j",), "package0_dram": ("energy_j",)}
    assert gaps == []
    observed = []
    for energy in (950, 20, 21):
        rapl(tmp_path, "intel-rapl:0", "package-0", energy)
        package, _ = source.read()
        observed.append(package.values["energy_j"])
    assert observed == pytest.approx([50e-6, 121e-6, 122e-6])
    source.stop()


PID = 4242
DOCKER = "/docker/abc"
GROUP_PRESSURE = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\nfull avg10=0.00 total=250000\n"


PRESSURES = dict.fromkeys(("cpu.pressure", "memory.pressure", "io.pressure"), GROUP_PRESSURE)
V2 = {
    "cpu.stat": "usage_usec 3500000\nuser_usec 3000000\nsystem_usec 500000\n"
                "nr_periods 40\nnr_throttled 10\nthrottled_usec 750000\n",
    "cpu.max": "150000 100000\n",
    "memory.current": "4096\n",
    "memory.peak": "8192\n",
    "memory.stat": "anon 1000\nfile 2000\nkernel 3\n",
    "memory.max": "max\n",
    "io.stat": "259:0 rbytes=100 wbytes=200 rios=1 wios=2 dbytes=0 dios=0\n"
               "253:0 rbytes=100 wbytes=200 rios=1 wios=2 dbytes=0 dios=0\n",
    "pids.current": "7\n",
    "pids.max": "100\n",
    **PRESSURES,
}  # fmt: skip
NO_LIMIT = "9223372036854771712\n"
V1 = {
    "cpu,cpuacct": {
        "cpuacct.usage": "3500000000\n",
        "cpuacct.stat": "user 300\nsystem 50\n",
        "cpu.stat": "nr_periods 40\nnr_throttled 10\nthrottled_time 750000000\nnr_bursts 0\n",
        "cpu.cfs_quota_us": "150000\n",
        "cpu.cfs_period_us": "100000\n",
    },
    "memory": {
        "memory.usage_in_bytes": "4096\n",
        "memory.max_usage_in_bytes": "8192\n",
        "memory.limit_in_bytes": NO_LIMIT,
        "memory.stat": "cache 1\nrss 1\ntotal_cache 2000\ntotal_rss 1000\n",
    },
    "blkio": {
        "blkio.throttle.io_service_bytes_recursive":
            "259:0 Read 100\n259:0 Write 200\n259:0 Total 300\n253:0 Read 100\n253:0 Write 200\nTotal 600\n",
        "blkio.throttle.io_serviced_recursive":
            "259:0 Read 1\n259:0 Write 2\n259:0 Total 3\n253:0 Read 1\nTotal 4\n",
    },
    "pids": {"pids.current": "7\n", "pids.max": "100\n"},
}  # fmt: skip
LAYERED = {"sys/block/dm-0/dev": "253:0\n"}


def v2(root: Path, own: str = "/user.slice", path: str = DOCKER, mounted: str = "/") -> None:
    folder = f"sys/fs/cgroup/{path.removeprefix(mounted)}"
    write_files(root, LAYERED | {f"{folder}/{name}": text for name, text in V2.items()} | {
        f"proc/{PID}/cgroup": f"0::{path}\n",
        "proc/self/cgroup": f"0::{own}\n",
        "proc/self/mountinfo": f"31 23 0:28 {mounted} /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw\n",
    })  # fmt: skip


def v1(root: Path, own: str = "/") -> None:
    mounts = "".join(f"3 1 0:2 / /sys/fs/cgroup/{names} rw - cgroup cgroup rw,{names}\n" for names in V1)
    unified = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
    groups = V1 | {"unified": PRESSURES}
    write_files(root, LAYERED | {
        f"proc/{PID}/cgroup": "".join(f"1:{names}:{DOCKER}\n" for names in (*V1, "")),
        "proc/self/cgroup": "".join(f"1:{names}:{own}\n" for names in V1),
        "proc/self/mountinfo": mounts + unified,
    } | {
        f"sys/fs/cgroup/{group}{DOCKER}/{name}": text for group, files in groups.items()
        for name, text in files.items()
    })  # fmt: skip


EXPECTED = {
    "cpu_usage_s": 3.5, "cpu_user_s": 3.0, "cpu_system_s": 0.5,
    "cpu_periods": 40, "cpu_throttled_periods": 10, "cpu_throttled_s": 0.75, "cpu_limit_cpus": 1.5,
    "mem_used_bytes": 4096, "mem_peak_bytes": 8192, "mem_anon_bytes": 1000, "mem_file_bytes": 2000,
    "io_read_bytes": 100, "io_write_bytes": 200, "io_read_ops": 1, "io_write_ops": 2,
    "pids": 7, "pids_limit": 100,
    **{f"{name}_pressure_{share}_s": seconds
       for name in ("cpu", "mem", "io") for share, seconds in (("some", 1.5), ("full", 0.25))},
}  # fmt: skip


def start(source, pid=PID):
    gaps = []
    columns = source.start(Target(pid=pid, gpus={}), lambda *gap: gaps.append(gap))
    return columns, gaps


@pytest.mark.parametrize("make", [v1, v2])
def test_both_versions_give_same_metrics(tmp_path, make):
    make(tmp_path)
    source = CgroupSource(tmp_path)
    columns, gaps = start(source)
    (sample,) = source.read()
    assert sample.device == "container"
    assert sample.values == pytest.approx(EXPECTED)
    assert set(columns["container"]) == set(EXPECTED)
    assert gaps == []
    source.stop()
    source = ProcessSource(tmp_path)  # for processes without a cgroup of their own
    columns, gaps = start(source)
    assert (columns, gaps, list(source.read())) == ({}, [], [])


def test_missing_files_are_gaps(tmp_path):
    v2(tmp_path / "pod", own="/pod/self", path="/pod/trial", mounted="/pod")
    assert locate(tmp_path / "pod", PID).folders[""] == tmp_path / "pod/sys/fs/cgroup/trial"
    v2(tmp_path)
    folder = tmp_path / f"sys/fs/cgroup{DOCKER}"
    for name in ("memory.peak", "io.stat", "io.pressure"):
        (folder / name).unlink()
    (folder / "cpu.stat").write_text("usage_usec 1\nuser_usec 1\nsystem_usec 0\n")
    columns, gaps = start(CgroupSource(tmp_path))
    reasons = {metric: reason for _, metric, reason in gaps}
    assert "Linux 5.19" in reasons["mem_peak_bytes"]
    assert "not enabled" in reasons["io_read_bytes"]
    assert "not enabled" in reasons["cpu_throttled_s"]
    assert "pressure" in reasons["io_pressure_some_s"]
    assert not reasons.keys() & set(columns["container"])


@pytest.mark.parametrize(
    ("make", "pid", "reason"),
    [
        (lambda root: v2(root, own=DOCKER), PID, "shares the harness's cgroup"),
        (v2, None, "The process has ended"),
        (v2, 1, "cannot be read"),
        (lambda root: write_files(root, {f"proc/{PID}/cgroup": "0::/x\n", "proc/self/cgroup": "0::/\n",
                                 "proc/self/mountinfo": "1 1 0:1 / / rw - ext4 /dev/vda rw\n"}),
         PID, "not mounted"),
    ],
)  # fmt: skip
def test_trial_without_own_cgroup_is_a_gap(tmp_path, make, pid, reason):
    make(tmp_path)
    source = CgroupSource(tmp_path)
    columns, gaps = start(source, pid)
    assert columns == {}
    assert [gap[:2] for gap in gaps] == [("container", "*")]
    assert reason in gaps[0][2]
    assert list(source.read()) == []


@pytest.mark.parametrize("running", [True, False])
def test_unreadable_file_is_a_gap_while_process_runs(tmp_path, running):
    v2(tmp_path)
    source = CgroupSource(tmp_path)
    _, gaps = start(source)
    # Invalid content is handled like the read errors of a removed cgroup.
    (tmp_path / f"sys/fs/cgroup{DOCKER}/memory.current").write_text("")
    if not running:
        shutil.rmtree(tmp_path / f"proc/{PID}")
    (sample,) = source.read()
    assert "mem_used_bytes" not in sample.values
    assert [gap[1] for gap in gaps] == (["mem_used_bytes"] if running else [])


CHILD = """
import os, time
data = bytearray(60_000_000)
print(os.getpid(), flush=True)
while time.process_time() < 20: pass
"""


def test_process_source_sums_over_process_tree():
    parent = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"
    with subprocess.Popen([sys.executable, "-c", parent, CHILD], stdout=subprocess.PIPE) as process:
        child = int(process.stdout.readline())
        source = ProcessSource()
        columns, gaps = start(source, process.pid)
        (first,) = source.read()
        observed = first.values["cpu_usage_s"]
        while observed < first.values["cpu_usage_s"] + 0.2:
            (sample,) = source.read()
            assert sample.values["cpu_usage_s"] >= observed, "counters never decrease"
            observed = sample.values["cpu_usage_s"]
        assert sample.values["mem_rss_bytes"] > 60_000_000
        assert sample.values["pids"] >= 2
        assert set(sample.values) == set(columns["container"])
        assert gaps == []
        os.kill(child, signal.SIGKILL)
        process.wait()
        assert list(source.read()) == []
