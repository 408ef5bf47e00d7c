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
from tests.folders import write_files

PID = 4242
DOCKER = "/docker/abc"
PRESSURE = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\nfull avg10=0.00 total=250000\n"


PRESSURES = dict.fromkeys(("cpu.pressure", "memory.pressure", "io.pressure"), PRESSURE)
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


def test_cgroup_is_located_below_mounted_root(tmp_path):
    v2(tmp_path, own="/pod/self", path="/pod/trial", mounted="/pod")
    assert locate(tmp_path, PID).folders[""] == tmp_path / "sys/fs/cgroup/trial"


def test_missing_files_are_gaps(tmp_path):
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


def test_process_source_ignores_process_with_own_cgroup(tmp_path):
    v2(tmp_path)
    source = ProcessSource(tmp_path)
    columns, gaps = start(source)
    assert (columns, gaps, list(source.read())) == ({}, [], [])
