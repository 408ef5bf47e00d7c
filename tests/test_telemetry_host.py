"""The host's sources on made-up /proc and /sys trees, and on this machine."""

from pathlib import Path

import pytest

from harness.telemetry import Target
from harness.telemetry.cpufreq import FrequencySource
from harness.telemetry.host import HostSource
from harness.telemetry.rapl import RaplSource
from tests.folders import write_files

NOBODY = Target(pid=None, gpus={})
SECOND = 1_000_000_000

MEMINFO = """MemTotal:       1000 kB
MemFree:         100 kB
MemAvailable:    600 kB
Buffers:          50 kB
Cached:          250 kB
SwapTotal:       500 kB
SwapFree:        400 kB
"""
DISKSTATS = """   7       0 loop0 9 0 999999 0 9 0 999999 0 0 0 0
 259       0 nvme0n1 10 0 {read} 5 20 0 {written} 5 0 0 0 0 0 0 0 0 0
 259       1 nvme0n1p1 10 0 {read} 5 20 0 {written} 5 0 0 0 0 0 0 0 0 0
 253       0 dm-0 10 0 {read} 5 20 0 {written} 5 0 0 0 0 0 0 0 0 0
"""
NET = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs
    lo: 5000 1 0 0 0 0 0 0 5000 1 0 0 0 0 0 0
  eth0: {received} 1 0 0 0 0 0 0 {sent} 1 0 0 0 0 0 0
docker0: {received} 1 0 0 0 0 0 0 {sent} 1 0 0 0 0 0 0
"""


class Tree:
    """A made-up root whose files change from tick to tick."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now_ns = SECOND
        for folder in ("sys/block/nvme0n1", "sys/block/loop0", "sys/block/dm-0", "sys/class/net/lo"):
            (root / folder).mkdir(parents=True)
        (root / "sys/class/net/eth0/device").mkdir(parents=True)
        (root / "sys/class/net/docker0").mkdir(parents=True)
        self.write("proc/meminfo", MEMINFO)
        self.write("proc/loadavg", "0.52 0.40 0.30 2/345 678\n")
        for name in ("cpu", "memory", "io"):
            self.write(f"proc/pressure/{name}", "some avg10=1.0 avg60=0 avg300=0 total=2500000\n"
                       "full avg10=0 avg60=0 avg300=0 total=500000\n")  # fmt: skip
        self.counters(cpu=((0,) * 8, (0,) * 8), switches=0, read=0, written=0, received=0, sent=0)

    def write(self, name: str, text: str) -> None:
        write_files(self.root, {name: text})

    def counters(self, *, cpu, switches, read, written, received, sent) -> None:
        total = [sum(column) for column in zip(*cpu, strict=True)]
        lines = ["cpu  " + " ".join(map(str, total)) + " 0 0"]
        lines += [f"cpu{core} " + " ".join(map(str, row)) + " 0 0" for core, row in enumerate(cpu)]
        lines += ["intr 12345 0 1 2", f"ctxt {switches}", "btime 1", "processes 9", "procs_running 3"]
        self.write("proc/stat", "\n".join(lines) + "\n")
        self.write("proc/diskstats", DISKSTATS.format(read=read, written=written))
        self.write("proc/self/net/dev", NET.format(received=received, sent=sent))

    def clock(self) -> int:
        return self.now_ns


@pytest.fixture
def tree(tmp_path):
    return Tree(tmp_path)


def gaps_of(source, target=NOBODY):
    gaps = []
    columns = source.start(target, lambda *gap: gaps.append(gap))
    return columns, gaps


def test_shares_are_over_the_time_between_two_reads_and_counters_as_they_stand(tree):
    source = HostSource(tree.root, tree.clock)
    columns, gaps = gaps_of(source)
    assert gaps == []
    # user nice system idle iowait irq softirq steal, in hundredths of a second
    tree.now_ns += SECOND // 2
    tree.counters(
        cpu=((20, 0, 5, 10, 5, 0, 5, 5), (0, 0, 0, 50, 0, 0, 0, 0)),
        switches=1000, read=2048, written=4096, received=3000, sent=6000,
    )  # fmt: skip
    host, cores = source.read()
    values = host.values
    assert values["cpu_util_pct"] == 35.0
    assert (values["cpu_user_pct"], values["cpu_system_pct"]) == (20.0, 10.0)
    assert (values["cpu_iowait_pct"], values["cpu_steal_pct"]) == (5.0, 5.0)
    assert cores.values == {"core0_util_pct": 70.0, "core1_util_pct": 0.0}
    assert values["context_switches"] == 1000
    assert values["procs_running"] == 3
    assert (values["disk_read_bytes"], values["disk_write_bytes"]) == (2048 * 512, 4096 * 512)
    assert (values["net_recv_bytes"], values["net_sent_bytes"]) == (3000, 6000)
    assert values["loopback_bytes"] == 5000
    assert values["mem_used_bytes"] == 400 * 1024
    assert values["mem_cached_bytes"] == 300 * 1024
    assert values["swap_used_bytes"] == 100 * 1024
    assert values["load1"] == 0.52
    assert (values["mem_pressure_some_s"], values["mem_pressure_full_s"]) == (2.5, 0.5)
    assert set(values) <= set(columns["host"])
    source.stop()


def test_what_a_machine_does_not_have_is_a_gap_and_no_zero(tree):
    (tree.root / "sys/block/nvme0n1").rmdir()
    for name in ("cpu", "memory", "io"):
        (tree.root / "proc/pressure" / name).unlink()
    columns, gaps = gaps_of(HostSource(tree.root, tree.clock))
    reasons = {metric: reason for _, metric, reason in gaps}
    assert {metric for metric, reason in reasons.items() if "psi=1" in reason} == {
        "cpu_pressure_some_s", "mem_pressure_some_s", "mem_pressure_full_s",
        "io_pressure_some_s", "io_pressure_full_s",
    }  # fmt: skip
    assert {metric for metric in reasons if "pressure" not in metric} == {
        "disk_read_bytes",
        "disk_write_bytes",
    }
    assert not reasons.keys() & set(columns["host"])


def test_no_time_between_two_reads_gives_no_shares(tree):
    tree.counters(cpu=((9,) * 8,), switches=5, read=500, written=500, received=500, sent=500)
    source = HostSource(tree.root, tree.clock)
    gaps_of(source)
    host, *_ = source.read()
    assert "cpu_util_pct" not in host.values


def test_no_proc_at_all_is_gaps_only(tmp_path):
    source = HostSource(tmp_path)
    columns, gaps = gaps_of(source)
    assert columns["host"] == ()
    assert {"cpu_util_pct", "mem_used_bytes", "net_recv_bytes"} <= {gap[1] for gap in gaps}
    source.stop()


def test_clocks_are_the_mean_and_the_extremes(tree):
    for core, count in enumerate((3, 4)):
        tree.write(f"sys/devices/system/cpu/cpu{core}/thermal_throttle/core_throttle_count", f"{count}\n")
    source = FrequencySource(tree.root, lambda: [1000.0, 2000.0, 3000.0], tree.clock)
    columns, gaps = gaps_of(source)
    (sample,) = source.read()
    assert sample.values == {
        "cpu_freq_mhz": 2000.0, "cpu_freq_min_mhz": 1000.0, "cpu_freq_max_mhz": 3000.0,
        "cpu_throttle_events": 7,
    }  # fmt: skip
    assert set(columns["host"]) == set(sample.values)
    assert gaps == []
    source.stop()


def test_clocks_and_energy_that_are_hidden_are_gaps(tree):
    source = FrequencySource(tree.root, lambda: [0.0, 0.0], tree.clock)
    _, gaps = gaps_of(source)
    assert list(source.read()) == []
    assert {gap[1] for gap in gaps} >= {"cpu_freq_mhz", "cpu_throttle_events"}
    columns, gaps = gaps_of(RaplSource(tree.root, tree.clock))
    assert columns == {}
    assert [gap[:2] for gap in gaps] == [("*", "*")]


def rapl(tree, zone, name, energy, limit=1000):
    folder = f"sys/class/powercap/{zone}"
    tree.write(f"{folder}/name", f"{name}\n")
    tree.write(f"{folder}/max_energy_range_uj", f"{limit}\n")
    tree.write(f"{folder}/energy_uj", f"{energy}\n")


def test_rapl_energy_goes_on_across_the_counters_wrap(tree):
    rapl(tree, "intel-rapl:0", "package-0", 900)
    rapl(tree, "intel-rapl:0:0", "dram", 0)
    source = RaplSource(tree.root, tree.clock)
    columns, gaps = gaps_of(source)
    assert columns == {"package0": ("energy_j",), "package0_dram": ("energy_j",)}
    assert gaps == []
    observed = []
    for energy in (950, 20, 21):
        rapl(tree, "intel-rapl:0", "package-0", energy)
        observed.append(next(each for each in source.read() if each.device == "package0").values["energy_j"])
    assert observed == pytest.approx([50e-6, 121e-6, 122e-6])
    source.stop()
