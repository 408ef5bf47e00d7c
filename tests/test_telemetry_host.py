import shutil
from pathlib import Path

import pytest

from harness.telemetry.host import FrequencySource, HostSource, RaplSource
from tests.folders import write_files
from tests.test_telemetry_cgroup import start

MEMINFO = """MemTotal:       1000 kB
MemFree:         100 kB
MemAvailable:    600 kB
Buffers:          50 kB
Cached:          250 kB
SwapTotal:       500 kB
SwapFree:        400 kB
"""
PRESSURE = "some avg10=1.0 avg60=0 avg300=0 total=2500000\nfull avg10=0 avg60=0 avg300=0 total=500000\n"
IDLE = {
    "proc/stat": """cpu  0 0 0 0 0 0 0 0 0 0
cpu0 0 0 0 0 0 0 0 0 0 0
cpu1 0 0 0 0 0 0 0 0 0 0
intr 12345 0 1 2
ctxt 0
btime 1
processes 9
procs_running 1
""",
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
    "proc/stat": """cpu  20 0 5 60 5 0 5 5 0 0
cpu0 20 0 5 10 5 0 5 5 0 0
cpu1 0 0 0 50 0 0 0 0 0 0
intr 12345 0 1 2
ctxt 1000
btime 1
processes 9
procs_running 3
""",
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


def test_unavailable_metrics_are_gaps(root):
    shutil.rmtree(root / "sys/block/nvme0n1")
    shutil.rmtree(root / "proc/pressure")
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


def test_hidden_clocks_and_energy_are_gaps(tmp_path):
    source = FrequencySource(tmp_path, lambda: [0.0, 0.0])
    _, gaps = start(source)
    assert list(source.read()) == []
    assert {gap[1] for gap in gaps} >= {"cpu_freq_mhz", "cpu_throttle_events"}
    columns, gaps = start(RaplSource(tmp_path))
    assert columns == {}
    assert [gap[:2] for gap in gaps] == [("*", "*")]


def rapl(root: Path, zone: str, name: str, energy: int) -> None:
    files = {"name": name, "max_energy_range_uj": "1000", "energy_uj": str(energy)}
    write_files(root / "sys/class/powercap" / zone, {name: f"{text}\n" for name, text in files.items()})


def test_rapl_energy_handles_counter_overflow(tmp_path):
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
