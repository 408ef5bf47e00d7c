"""Every telemetry metric, once: what it is, where it comes from, and how it is summarised and drawn.

Sources, downsampling, analysis and charts read this table; docs/telemetry.md explains sources and gaps. To add a
metric, add a row here, and its reading to a source in harness/telemetry.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class MetricKind(StrEnum):
    """How readings of a metric are summarised."""

    GAUGE = "gauge"  # instantaneous: take means
    RATE = "rate"  # average since the last reading: take means
    COUNTER = "counter"  # cumulative: take differences, which are exact, unlike means of sampled rates
    BITS = "bits"  # a mask, of which neither sum nor mean has a meaning


GAUGE, RATE, COUNTER, BITS = MetricKind.GAUGE, MetricKind.RATE, MetricKind.COUNTER, MetricKind.BITS


class Unit(NamedTuple):
    """A unit, and the largest plausible value in it: NVML returns numbers with all bits set for unknown values."""

    symbol: str
    limit: float


# End of a metric's name -> its unit.
_UNITS = {
    "_pct": Unit("%", 1e3),
    "_c": Unit("°C", 1e3),
    "_w": Unit("W", 1e5),
    "_mhz": Unit("MHz", 1e5),
    "_bytes": Unit("B", 1e15),
    "_bytes_per_s": Unit("B/s", 1e15),
    "_s": Unit("s", 1e10),
    "_s_per_s": Unit("s", 1e10),
    "_per_s": Unit("/s", 1e15),
    "_j": Unit("J", 1e15),
    "_cpus": Unit("CPUs", 1e5),
}
_COUNT = Unit("", (1 << 32) - 1)


@dataclass(frozen=True, slots=True)
class TelemetryMetric:
    """A column of a source's CSV files.

    Attributes:
        sources: names of the sources that read it, the most accurate first.
        panel: title of its panel in the telemetry chart, "" if it is not drawn. In a panel, each device has the first
            metric that was read there; counters are drawn as rates.
        worst: of values of several GPUs under load, the one to show for all; None if none is shown.
    """

    name: str
    kind: MetricKind
    sources: str
    meaning: str
    panel: str = ""
    worst: Callable[[Iterable[float]], float] | None = None

    @property
    def unit(self) -> Unit:
        """The unit, which the end of the name tells."""
        ends = [end for end in _UNITS if self.name.endswith(end)]
        return _UNITS[max(ends, key=len)] if ends else _COUNT

    @property
    def readings(self) -> tuple[tuple[str, str], ...]:
        """(source, metric) of each source."""
        return tuple((source, self.name) for source in self.sources.split())


# In the order of the chart's panels.
METRICS: Mapping[str, TelemetryMetric] = {metric.name: metric for metric in (
    TelemetryMetric("graphics_util_pct", RATE, "gpm", "Kernel resident; older runs only", panel="GPU utilisation"),
    TelemetryMetric("gpu_util_pct", GAUGE, "nvml_util nvml", "Share of time with a kernel", panel="GPU utilisation"),
    TelemetryMetric("sm_util_pct", RATE, "gpm", "Busy SMs, averaged over time", panel="SM activity"),
    TelemetryMetric("sm_occupancy_pct", RATE, "gpm", "Active warps / maximum"),
    TelemetryMetric("tensor_util_pct", RATE, "gpm", "Any tensor operation"),
    TelemetryMetric("dram_util_pct", RATE, "gpm", "Of theoretical bandwidth"),
    TelemetryMetric("mem_util_pct", GAUGE, "nvml", "Share of the period with reads or writes of memory"),
    TelemetryMetric("sm_clock_mhz", GAUGE, "nvml", "NVML_CLOCK_SM", worst=min),
    TelemetryMetric("power_instant_w", GAUGE, "nvml", "NVML_FI_DEV_POWER_INSTANT", panel="GPU power", worst=max),
    TelemetryMetric("power_usage_w", GAUGE, "nvml", "Some GPUs: mean of the last second", panel="GPU power"),
    TelemetryMetric("power_limit_w", GAUGE, "nvml_slow", "Enforced limit"),
    TelemetryMetric("power_capped_s", COUNTER, "nvml", "Slowed by the power limit (NVML_FI_DEV_PERF_POLICY_POWER)"),
    TelemetryMetric("temperature_c", GAUGE, "nvml", "GPU sensor", panel="GPU temperature", worst=max),
    TelemetryMetric("mem_temperature_c", GAUGE, "nvml_slow", "NVML_FI_DEV_MEMORY_TEMP"),
    TelemetryMetric("mem_clock_mhz", GAUGE, "nvml", "NVML_CLOCK_MEM"),
    TelemetryMetric("throttle_reasons", BITS, "nvml", "Bit mask: nvmlClocksEventReason*"),
    TelemetryMetric("throttle_sw_power_cap", GAUGE, "nvml", "0 or 1: power limit"),
    TelemetryMetric("throttle_sw_thermal", GAUGE, "nvml", "0 or 1: thermal slowdown by software"),
    TelemetryMetric("throttle_hw_thermal", GAUGE, "nvml", "0 or 1: thermal slowdown by hardware"),
    TelemetryMetric("throttle_hw_slowdown", GAUGE, "nvml", "0 or 1: by hardware, for power brake, current or heat"),
    TelemetryMetric("pcie_send_bytes_per_s", RATE, "gpm", "To the host"),
    TelemetryMetric("pcie_receive_bytes_per_s", RATE, "gpm", "From the host"),
    TelemetryMetric("pcie_replays", COUNTER, "nvml_slow", "Retransmitted packets: sign of a poor link"),
    TelemetryMetric("pcie_link_gen", GAUGE, "nvml_slow", "Generation of the current link"),
    TelemetryMetric("pcie_link_width", GAUGE, "nvml_slow", "Lanes of the current link"),
    TelemetryMetric("nvlink_send_bytes_per_s", RATE, "gpm", "Sent on all links"),
    TelemetryMetric("nvlink_receive_bytes_per_s", RATE, "gpm", "Received on all links"),
    TelemetryMetric("ecc_corrected", COUNTER, "nvml_slow", "Since the driver was loaded"),
    TelemetryMetric("ecc_uncorrected", COUNTER, "nvml_slow", "Since the driver was loaded"),
    TelemetryMetric("xid_errors", COUNTER, "nvml_slow", "Critical driver errors since sampling began"),
    TelemetryMetric("foreign_processes", GAUGE, "nvml_slow", "Other processes with a context on the GPU"),
    TelemetryMetric("foreign_mem_bytes", GAUGE, "nvml_slow", "Memory of those processes"),
    TelemetryMetric("cpu_util_pct", RATE, "host", "Neither idle nor in iowait, all CPUs", panel="CPU busy"),
    TelemetryMetric("cpu_user_pct", RATE, "host", "In user code, including nice, excluding guests"),
    TelemetryMetric("cpu_system_pct", RATE, "host", "In the kernel, including interrupts"),
    TelemetryMetric("cpu_iowait_pct", RATE, "host", "Idle with disk requests outstanding"),
    TelemetryMetric("cpu_steal_pct", RATE, "host", "Taken by the hypervisor for other guests"),
    TelemetryMetric("core{n}_util_pct", RATE, "host", "One logical CPU, as cpu_util_pct"),
    TelemetryMetric("context_switches", COUNTER, "host", "All CPUs"),
    TelemetryMetric("procs_running", GAUGE, "host", "Threads running or runnable, including tfbench's"),
    TelemetryMetric("load1", GAUGE, "host", "One-minute load average"),
    TelemetryMetric("mem_used_bytes", GAUGE, "host cgroup nvml", "MemTotal - MemAvailable; cgroup: with page cache"),
    TelemetryMetric("mem_available_bytes", GAUGE, "host", "MemAvailable"),
    TelemetryMetric("mem_cached_bytes", GAUGE, "host", "File pages"),
    TelemetryMetric("swap_used_bytes", GAUGE, "host", "SwapTotal - SwapFree"),
    TelemetryMetric("disk_read_bytes", COUNTER, "host", "Read from all whole disks"),
    TelemetryMetric("disk_write_bytes", COUNTER, "host", "Written to all whole disks"),
    TelemetryMetric("net_recv_bytes", COUNTER, "host", "All physical interfaces"),
    TelemetryMetric("net_sent_bytes", COUNTER, "host", "All physical interfaces"),
    TelemetryMetric("loopback_bytes", COUNTER, "host", "Between processes on this machine"),
    TelemetryMetric("cpu_freq_mhz", GAUGE, "cpufreq", "Mean of the logical CPUs"),
    TelemetryMetric("cpu_freq_min_mhz", GAUGE, "cpufreq", "Lowest of the logical CPUs"),
    TelemetryMetric("cpu_freq_max_mhz", GAUGE, "cpufreq", "Highest of the logical CPUs"),
    TelemetryMetric("cpu_throttle_events", COUNTER, "cpufreq", "Thermal throttling of cores"),
    TelemetryMetric("cpu_pressure_some_s", COUNTER, "host cgroup", "Pressure (PSI): time in which some tasks waited"),
    TelemetryMetric("cpu_pressure_full_s", COUNTER, "host cgroup", "Pressure (PSI): time in which all tasks waited"),
    TelemetryMetric("mem_pressure_some_s", COUNTER, "host cgroup", "Pressure (PSI): time in which some tasks waited"),
    TelemetryMetric("mem_pressure_full_s", COUNTER, "host cgroup", "Pressure (PSI): time in which all tasks waited"),
    TelemetryMetric("io_pressure_some_s", COUNTER, "host cgroup", "Pressure (PSI): time in which some tasks waited"),
    TelemetryMetric("io_pressure_full_s", COUNTER, "host cgroup", "Pressure (PSI): time in which all tasks waited"),
    TelemetryMetric("cpu_usage_s", COUNTER, "cgroup process", "CPU time"),
    TelemetryMetric("cpu_user_s", COUNTER, "cgroup process", "CPU time in user code"),
    TelemetryMetric("cpu_system_s", COUNTER, "cgroup process", "CPU time in the kernel"),
    TelemetryMetric("cpu_periods", COUNTER, "cgroup", "Quota periods with runnable threads"),
    TelemetryMetric("cpu_throttled_periods", COUNTER, "cgroup", "Periods in which the quota ran out"),
    TelemetryMetric("cpu_throttled_s", COUNTER, "cgroup", "Time runnable threads waited for quota"),
    TelemetryMetric("cpu_limit_cpus", GAUGE, "cgroup", "Quota / period; absent without a quota"),
    TelemetryMetric("mem_peak_bytes", GAUGE, "cgroup", "Kernel's high-water mark"),
    TelemetryMetric("mem_anon_bytes", GAUGE, "cgroup", "Heaps, stacks, private pages"),
    TelemetryMetric("mem_file_bytes", GAUGE, "cgroup", "Page cache, including tmpfs"),
    TelemetryMetric("mem_limit_bytes", GAUGE, "cgroup", "Absent without a limit"),
    TelemetryMetric("mem_rss_bytes", GAUGE, "process", "Of the process tree; shared pages count for each process"),
    TelemetryMetric("io_read_bytes", COUNTER, "cgroup process", "Block devices"),
    TelemetryMetric("io_write_bytes", COUNTER, "cgroup process", "Block devices"),
    TelemetryMetric("io_read_ops", COUNTER, "cgroup process", "Block requests; process: system calls"),
    TelemetryMetric("io_write_ops", COUNTER, "cgroup process", "Block requests; process: system calls"),
    TelemetryMetric("pids", GAUGE, "cgroup process", "Threads and processes"),
    TelemetryMetric("pids_limit", GAUGE, "cgroup", "Absent without a limit"),
    TelemetryMetric("energy_j", COUNTER, "rapl", "The device's own counter"),
)}  # fmt: skip


def metric_named(name: str) -> TelemetryMetric | None:
    """Return the metric of a column, also of one core; None if a newer or older tfbench wrote it."""
    return METRICS.get(re.sub(r"\Acore\d+_", "core{n}_", name))


def is_kind(name: str, kind: MetricKind) -> bool:
    """Return whether a column is of this kind."""
    metric = metric_named(name)
    return metric is not None and metric.kind is kind


def plausible(name: str, value: float) -> bool:
    """Return whether a metric can have this value."""
    metric = metric_named(name)
    return 0 <= value < (metric.unit if metric else _COUNT).limit


# Of a GPU, best first.
GPU_UTILISATION = METRICS["graphics_util_pct"].readings + METRICS["gpu_util_pct"].readings
GPU_POWER = METRICS["power_instant_w"].readings + METRICS["power_usage_w"].readings
