"""The NVML sources, through the real binding and a stand-in for the library."""

import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

import pynvml
import pytest

from tests.commands import output_of
from tests.nvml_standin import ONE_GPU, UUID, standin

__all__ = ["standin"]
OTHER = "GPU-99999999-8888-7777-6666-555555555555"
ALL_BITS = (1 << 32) - 1
LOST = pynvml.NVML_ERROR_GPU_IS_LOST
ALL_SOURCES = ("nvml", "nvml_slow", "gpm", "nvml_util")


def test_every_metric_read_is_declared(standin):
    reading = standin.read(ONE_GPU + "value xid 31 0\nvalue process 1\n", *ALL_SOURCES, pause_s=0.03)
    for sample in reading.samples:
        for metric in sample["values"]:
            assert metric in reading.columns[sample["source"]][sample["device"]]
    for source in ALL_SOURCES:
        assert any(sample["source"] == source for sample in reading.samples), source


def test_units_are_converted(standin):
    script = ONE_GPU + "value field186 412500\nvalue field82 47\n"
    script += "value field74 2500000000\nvalue temperature0 63\nvalue memory 5e9\n"
    reading = standin.read(script, "nvml", reads=1)
    assert reading.values("power_instant_w") == [412.5]
    assert reading.values("power_capped_s") == [2.5]
    slow = standin.read(script, "nvml_slow", reads=1)
    assert slow.values("mem_temperature_c") == [47]
    assert reading.values("temperature_c") == [63]
    assert reading.values("mem_used_bytes") == [5e9]
    bits = pynvml.nvmlClocksEventReasonSwPowerCap | pynvml.nvmlClocksEventReasonHwThermalSlowdown
    values = standin.read(ONE_GPU + f"value reasons {bits}\n", "nvml", reads=1).samples[0]["values"]
    raised = {name for name in values if name.startswith("throttle_") and values[name] == 1}
    assert (values["throttle_reasons"], raised) == (bits, {"throttle_sw_power_cap", "throttle_hw_thermal"})
    assert standin.read(ONE_GPU + "value xid 0 31 79 0 0\n", "nvml_slow", reads=2).values("xid_errors") == [
        2,
        2,
    ]


def test_unsupported_metrics_are_gaps_not_zeros(standin):
    script = ONE_GPU + "fail nvmlDeviceGetUtilizationRates 3\nfield 186 3\nfield 74 3\n"
    reading = standin.read(script, "nvml")
    for metric in ("gpu_util_pct", "mem_util_pct", "power_instant_w", "power_capped_s"):
        assert reading.values(metric) == [None] * 3
        assert "not support" in reading.reasons()["gpu0", metric]
        assert metric not in reading.columns["nvml"]["gpu0"]
    # Read once, not at every tick.
    assert len([gap for gap in reading.gaps if gap[3] == "gpu_util_pct"]) == 1
    assert reading.values("sm_clock_mhz") == [1980] * 3


def test_lost_gpu_is_a_gap_and_others_are_still_read(standin):
    script = ONE_GPU + f"gpu 1 {OTHER} -1\nfail gpu:0 {LOST} 30\n"
    reading = standin.read(script, "nvml", reads=8, gpus={"gpu0": UUID, "gpu1": OTHER})
    assert 0 < len(reading.values("sm_clock_mhz", "gpu0")) < 8
    assert reading.values("sm_clock_mhz", "gpu1") == [1980] * 8
    assert "fallen off the bus" in reading.reasons()["gpu0", "*"]
    once = standin.read(ONE_GPU + "fail nvmlDeviceGetClockInfo 999 4 6\n", "nvml", reads=5)
    assert once.values("sm_clock_mhz").count(None) == 1 and once.values("sm_clock_mhz")[-1] == 1980
    assert "unknown" in once.reasons()["gpu0", "sm_clock_mhz"]


def test_gpu_is_read_again_after_reset(standin):
    script = ONE_GPU + f"fail gpu:0 {LOST} 30 36\n"
    reading = standin.read(script, "nvml", "gpm", "nvml_slow", reads=40)
    times = [sample["t_ns"] for sample in reading.samples if sample["source"] == "nvml"]
    lost = [gap[0] for gap in reading.gaps if gap[1] == "nvml" and gap[3] == "*"]
    assert min(times) < min(lost) <= max(lost) < max(times)
    for source in ("gpm", "nvml_slow"):
        assert any(sample["source"] == source and sample["t_ns"] > max(lost) for sample in reading.samples)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "different vers"),
        (pynvml.NVML_ERROR_UNKNOWN, "unknown err"),
    ],
)
def test_failed_initialisation_is_explained(standin, code, message):
    script = ONE_GPU + f"fail nvmlInitWithFlags {code}\n"
    reading = standin.read(script, *ALL_SOURCES)
    assert reading.samples == []
    assert message in reading.reasons()["gpu0", "*"]
    assert {gap[1] for gap in reading.gaps} == set(ALL_SOURCES)
    gpus, reason = standin.discover(script)
    assert gpus == ()
    assert message in reason


def test_missing_library_means_no_driver(tmp_path):
    script = "from harness.system.gpus import discover; print(discover())"
    result = output_of(sys.executable, "-c", script, LD_LIBRARY_PATH=str(tmp_path))
    # The linker may find the library elsewhere if this host has a driver and GPUs.
    assert ("No NVIDIA driver" if "libnvidia-ml" in result else "Gpu(") in result


def test_mig_instance_has_a_subset_of_metrics(standin):
    script = f"gpu 0 {UUID} 2\n"
    reading = standin.read(script, "nvml", "gpm", gpus={"gpu0": f"MIG-1-{UUID}"})
    assert reading.values("mem_used_bytes")[:1] == [2e9]
    assert "MIG instance" in reading.reasons()["gpu0", "gpu_util_pct"]
    assert "MIG instance" in reading.reasons()["gpu0", "power_instant_w"]
    assert any("sm_util_pct" in sample["values"] for sample in reading.samples if sample["source"] == "gpm")


def test_gpm_shows_duty_cycle_and_unsupported_metrics_are_gaps(standin):
    reading = standin.read(ONE_GPU + "value gpm2 97 97 0 0\n", "gpm", reads=8)
    assert reading.values("sm_util_pct") == [97, 97, 0, 0, 97, 97, 0, 0]
    assert reading.values("pcie_send_bytes_per_s") == [20 * 1024 * 1024] * 8
    before_hopper = standin.read(ONE_GPU + "value gpm 0\n", "gpm")
    assert before_hopper.samples == []
    assert "not support" in before_hopper.reasons()["gpu0", "sm_util_pct"]
    without_links = standin.read(ONE_GPU + "value gpm60 -1\n", "gpm")
    assert without_links.values("nvlink_receive_bytes_per_s") == [None] * 3
    assert without_links.values("sm_util_pct") == [2, 2, 2]
    assert ("gpu0", "nvlink_receive_bytes_per_s") in without_links.reasons()


def test_foreign_process_is_counted(standin):
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        script = ONE_GPU + f"value process {child.pid}\n"
        own = standin.read(script, "nvml_slow", reads=1, pid=os.getpid())
        foreign = standin.read(script, "nvml_slow", reads=1, pid=2**22)
    finally:
        child.communicate(b"\n")
    if ("gpu0", "foreign_processes") in own.reasons():
        assert str(Path("/proc/self/ns/pid").readlink()) != "pid:[4026531836]"
        return
    assert own.values("foreign_processes") == [0]
    assert foreign.values("foreign_processes") == [1]
    assert foreign.values("foreign_mem_bytes") == [2**30]


def test_buffered_samples_show_duty_cycle_without_duplicates(standin):
    # Read twice in 0.6 s; the driver has a sample every 20 ms, 200 ms on and 200 ms off.
    reading = standin.read(ONE_GPU, "nvml_util", reads=2, pause_s=0.3)
    times = [sample["t_ns"] for sample in reading.samples]
    assert set(reading.values("gpu_util_pct")) == {0, 100}
    assert len(times) >= 30
    assert all(b - a > 10_000_000 for a, b in itertools.pairwise(times))
    assert abs(times[-1] - time.monotonic_ns()) < 60_000_000_000, "on the sampler's clock"


def test_discovery_describes_gpus_and_reports_lost_one(standin):
    script = f"gpu 1 {OTHER} -1\nfail nvmlDeviceGetPowerManagementDefaultLimit 3\nfail gpu:1 {LOST}\n"
    (first,), reason = standin.discover(ONE_GPU + script)
    assert (first.uuid, first.name) == (UUID, "NVIDIA Stand-in")
    assert (first.driver_version, first.cuda_version) == ("580.65.06", "13.0")
    assert (first.compute_capability, first.power_limit_w) == ("9.0", 700.0)
    assert (first.power_default_limit_w, first.mig_enabled) == (None, False)
    assert reason.startswith("GPU 1: The GPU has fallen off the bus")


def test_discovery_replaces_gpu_by_its_mig_instances(standin):
    gpus, reason = standin.discover(f"gpu 0 {UUID} -1\ngpu 1 {OTHER} 2\ngpu 2 GPU-3 0\n")
    assert [(gpu.mig_uuid, gpu.power_limit_w, gpu.minor_number) for gpu in gpus] == [
        ("", 700.0, 0), (f"MIG-0-{OTHER}", 700.0, 1), (f"MIG-1-{OTHER}", 700.0, 1), ("", 700.0, 2),
    ]  # fmt: skip
    assert "has no instances" in reason
    # Names may be any bytes, and numbers unknown.
    script = "name " + b"NVIDIA H2\xff\x1b[31m00".hex() + "\n"
    script += "".join(f"value {name} {ALL_BITS}\n" for name in ("limit", "max_gen", "max_clock1"))
    (found, instance), reason = standin.discover(script + f"gpu 0 {UUID} -1\ngpu 1 {OTHER} 1\n")
    assert (found.name, reason) == ("NVIDIA H2\ufffd00", "")
    assert instance.name == "NVIDIA H2\ufffd00 MIG 1g.18gb"
    assert (found.power_limit_w, found.pcie_gen, found.clock_max_sm_mhz) == (None, None, None)


@pytest.mark.parametrize("value", [ALL_BITS, 1e12, 1e18])
def test_impossible_values_are_gaps(standin, value):
    names = ("temperature0", "power_usage", "clock1", "util", "memory", "field186", "field82", "field74")
    script = ONE_GPU + "".join(f"value {name} {value}\n" for name in names)
    reading = standin.read(script, "nvml", "nvml_slow", "nvml_util")
    for metric in ("temperature_c", "power_usage_w", "sm_clock_mhz", "power_instant_w", "mem_temperature_c"):
        assert set(reading.values(metric)) <= {None}, metric
        assert "impossible" in reading.reasons()["gpu0", metric]
    assert all(value < 1e13 for sample in reading.samples for value in sample["values"].values()), (
        "nothing beyond the plausible is recorded"
    )
    width = standin.read(ONE_GPU + f"value width {ALL_BITS}\n", "nvml_slow").values("pcie_link_width")
    assert set(width) == {None}
