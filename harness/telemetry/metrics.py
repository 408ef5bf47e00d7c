"""Every telemetry metric by name: what it is, its unit, and how a reader must treat its values.

Counters are stored as the system keeps them, cumulative: the difference of two readings over a window is
exact whatever happened between them, where a mean of sampled rates is not. Rates are stored only where
the system gives a rate, or where its counter is of no use by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum


class Kind(StrEnum):
    """How to read a metric's values: counters by difference, the others by mean over time."""

    GAUGE = "gauge"
    RATE = "rate"
    COUNTER = "counter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One metric.

    Attributes:
        label: a few words for people.
        unit: as it would stand on an axis; "" for plain counts, "0/1" for conditions.
        description: what exactly is measured, and by whom.
        kind: gauge, rate or counter (cumulative, only differences mean anything).
        sources: names of the sources that give it.
    """

    label: str
    unit: str
    description: str
    kind: Kind
    sources: tuple[str, ...]


_Row = tuple[str, str, Kind, str, str, str]
G, R, C = Kind.GAUGE, Kind.RATE, Kind.COUNTER

_HOST: tuple[_Row, ...] = (
    ("cpu_util_pct", "CPU busy", R, "%", "host", "Neither idle nor in iowait, all CPUs"),
    ("cpu_user_pct", "CPU user", R, "%", "host", "In user code, including nice, excluding guests"),
    ("cpu_system_pct", "CPU system", R, "%", "host", "In the kernel, including interrupts"),
    ("cpu_iowait_pct", "CPU I/O wait", R, "%", "host", "Idle with disk requests outstanding"),
    ("cpu_steal_pct", "CPU steal", R, "%", "host", "Given to other guests by the hypervisor"),
    ("core{n}_util_pct", "Core {n} busy", R, "%", "host", "One logical CPU, as cpu_util_pct"),
    ("context_switches_per_s", "Context switches", R, "1/s", "host", "All CPUs"),
    ("procs_running", "Runnable threads", G, "", "host", "Threads running or runnable, including tfbench's"),
    ("load1", "Load average", G, "", "host", "One-minute load average"),
    ("mem_used_bytes", "Memory used", G, "B", "host cgroup nvml",
     "host: MemTotal - MemAvailable; cgroup: charged, including page cache; nvml: allocated by anyone"),
    ("mem_available_bytes", "Memory available", G, "B", "host", "MemAvailable"),
    ("mem_cached_bytes", "Page cache", G, "B", "host", "File pages"),
    ("swap_used_bytes", "Swap used", G, "B", "host", "SwapTotal - SwapFree"),
    ("disk_read_bytes_per_s", "Disk read", R, "B/s", "host", "All whole disks"),
    ("disk_write_bytes_per_s", "Disk write", R, "B/s", "host", "All whole disks"),
    ("net_recv_bytes_per_s", "Network in", R, "B/s", "host", "All physical interfaces"),
    ("net_sent_bytes_per_s", "Network out", R, "B/s", "host", "All physical interfaces"),
    ("net_recv_bytes", "Network received", C, "B", "network", "One physical interface, or loopback"),
    ("net_sent_bytes", "Network sent", C, "B", "network", "One physical interface, or loopback"),
    ("cpu_freq_mhz", "CPU clock", G, "MHz", "cpufreq", "Logical CPUs: mean, minimum, maximum"),
    ("cpu_freq_min_mhz", "Slowest core clock", G, "MHz", "cpufreq", "Logical CPUs: mean, minimum, maximum"),
    ("cpu_freq_max_mhz", "Fastest core clock", G, "MHz", "cpufreq", "Logical CPUs: mean, minimum, maximum"),
    ("cpu_throttle_events", "CPU thermal throttling", C, "", "cpufreq", "Thermal throttling of cores"),
)  # fmt: skip

_PRESSURE: tuple[_Row, ...] = tuple(
    (
        f"{resource}_pressure_{share}_s",
        f"{label} pressure ({share})",
        C,
        "s",
        "host cgroup",
        "Stall time (PSI) of some task, or of all at once",
    )
    for resource, label in (("cpu", "CPU"), ("mem", "Memory"), ("io", "I/O"))
    for share in ("some", "full")
)

_CONTAINER: tuple[_Row, ...] = (
    ("cpu_usage_s", "CPU time", C, "s", "cgroup process", "CPU time: total, user, kernel"),
    ("cpu_user_s", "CPU time, user", C, "s", "cgroup process", "CPU time: total, user, kernel"),
    ("cpu_system_s", "CPU time, system", C, "s", "cgroup process", "CPU time: total, user, kernel"),
    ("cpu_periods", "Quota periods", C, "", "cgroup", "Quota periods with runnable threads"),
    ("cpu_throttled_periods", "Throttled periods", C, "", "cgroup", "Periods in which the quota ran out"),
    ("cpu_throttled_s", "Throttled time", C, "s", "cgroup", "Time runnable threads waited for quota"),
    ("cpu_limit_cpus", "CPU quota", G, "CPUs", "cgroup", "Quota / period; absent without a quota"),
    ("mem_peak_bytes", "Memory peak", G, "B", "cgroup", "Kernel's high-water mark"),
    ("mem_anon_bytes", "Anonymous memory", G, "B", "cgroup", "Heaps, stacks, private pages"),
    ("mem_file_bytes", "File memory", G, "B", "cgroup", "Page cache, including tmpfs"),
    ("mem_limit_bytes", "Memory limit", G, "B", "cgroup", "Absent without a limit"),
    ("mem_rss_bytes", "Resident memory", G, "B", "process",
     "Summed over the process tree; shared pages count once a process"),
    ("io_read_bytes", "I/O read", C, "B", "cgroup process", "Block devices"),
    ("io_write_bytes", "I/O written", C, "B", "cgroup process", "Block devices"),
    ("io_read_ops", "Read requests", C, "", "cgroup process", "Block requests; process: system calls"),
    ("io_write_ops", "Write requests", C, "", "cgroup process", "Block requests; process: system calls"),
    ("pids", "Tasks", G, "", "cgroup process", "Threads and processes"),
    ("pids_limit", "Task limit", G, "", "cgroup", "Absent without a limit"),
)  # fmt: skip

_GPU: tuple[_Row, ...] = (
    ("gpu_util_pct", "GPU utilisation", G, "%", "nvml nvml_util",
     "Share of the driver's sampling period with any kernel resident"),
    ("mem_util_pct", "GPU memory utilisation", G, "%", "nvml",
     "Share of that period with memory reads or writes"),
    ("power_instant_w", "GPU power, instant", G, "W", "nvml", "NVML_FI_DEV_POWER_INSTANT"),
    ("power_average_w", "GPU power, average", G, "W", "nvml_slow",
     "NVML_FI_DEV_POWER_AVERAGE, over about 1 s"),
    ("power_usage_w", "GPU power", G, "W", "nvml nvml_power",
     "nvmlDeviceGetPowerUsage and driver samples: instant or average, depending on the GPU"),
    ("power_limit_w", "GPU power limit", G, "W", "nvml_slow", "Enforced limit"),
    ("energy_j", "Energy", C, "J", "nvml_slow rapl", "The device's own counter"),
    ("temperature_c", "GPU temperature", G, "degC", "nvml", "GPU sensor"),
    ("mem_temperature_c", "GPU memory temperature", G, "degC", "nvml_slow", "NVML_FI_DEV_MEMORY_TEMP"),
    ("sm_clock_mhz", "SM clock", G, "MHz", "nvml", "NVML_CLOCK_SM, NVML_CLOCK_MEM"),
    ("mem_clock_mhz", "GPU memory clock", G, "MHz", "nvml", "NVML_CLOCK_SM, NVML_CLOCK_MEM"),
    ("performance_state", "Performance state", G, "P", "nvml", "0 fastest, 15 slowest"),
    ("power_capped_s", "Power-capped time", C, "s", "nvml", "NVML_FI_DEV_PERF_POLICY_POWER"),
    ("thermal_capped_s", "Thermally capped time", C, "s", "nvml_slow", "NVML_FI_DEV_PERF_POLICY_THERMAL"),
    ("throttle_reasons", "Clocks event reasons", G, "bits", "nvml", "Bit mask of the following"),
    ("throttle_idle", "Clocks: idle", G, "0/1", "nvml", "Idle: clocks lowered to save power"),
    ("throttle_app_clocks", "Clocks: set by user", G, "0/1", "nvml", "Application clocks setting"),
    ("throttle_sw_power_cap", "Clocks: power cap", G, "0/1", "nvml", "Power limit"),
    ("throttle_hw_slowdown", "Clocks: hardware slowdown", G, "0/1", "nvml", "By hardware, to half or less"),
    ("throttle_sync_boost", "Clocks: sync boost", G, "0/1", "nvml", "Slowest GPU of a sync boost group"),
    ("throttle_sw_thermal", "Clocks: thermal (software)", G, "0/1", "nvml", "Temperature, by software"),
    ("throttle_hw_thermal", "Clocks: thermal (hardware)", G, "0/1", "nvml", "Temperature, by hardware"),
    ("throttle_hw_power_brake", "Clocks: power brake", G, "0/1", "nvml", "Requested by the power supply"),
    ("throttle_display_clock", "Clocks: display", G, "0/1", "nvml", "Display clock setting"),
    ("pcie_send_bytes", "PCIe sent", C, "B", "nvml_slow", "NVML_FI_DEV_PCIE_COUNT_{TX,RX}_BYTES"),
    ("pcie_receive_bytes", "PCIe received", C, "B", "nvml_slow", "NVML_FI_DEV_PCIE_COUNT_{TX,RX}_BYTES"),
    ("pcie_send_bytes_per_s", "PCIe out", R, "B/s", "nvml_slow gpm", "nvml_slow: over 20 ms"),
    ("pcie_receive_bytes_per_s", "PCIe in", R, "B/s", "nvml_slow gpm", "nvml_slow: over 20 ms"),
    ("pcie_replays", "PCIe replays", C, "", "nvml_slow", "Retransmitted packets: a poor link"),
    ("pcie_link_gen", "PCIe generation", G, "", "nvml_slow", "Current link"),
    ("pcie_link_width", "PCIe width", G, "lanes", "nvml_slow", "Current link"),
    ("nvlink_send_bytes", "NVLink sent", C, "B", "nvml_slow", "Payload, all links"),
    ("nvlink_receive_bytes", "NVLink received", C, "B", "nvml_slow", "Payload, all links"),
    ("nvlink_send_bytes_per_s", "NVLink out", R, "B/s", "gpm", "All links"),
    ("nvlink_receive_bytes_per_s", "NVLink in", R, "B/s", "gpm", "All links"),
    ("ecc_corrected", "ECC corrected", C, "", "nvml_slow", "Since the driver was loaded"),
    ("ecc_uncorrected", "ECC uncorrected", C, "", "nvml_slow", "Since the driver was loaded"),
    ("xid_errors", "XID errors", C, "", "nvml_slow", "Critical driver errors since sampling began"),
    ("xid_last", "Last XID", G, "", "nvml_slow", "Code of the last error; absent without one"),
    ("foreign_processes", "Processes not ours", G, "", "nvml_slow", "Others with a context on the GPU"),
    ("foreign_mem_bytes", "GPU memory not ours", G, "B", "nvml_slow", "Memory of those processes"),
    ("graphics_util_pct", "Compute engine active", R, "%", "gpm", "Kernel resident; older runs only"),
    ("sm_util_pct", "SM activity", R, "%", "gpm", "Busy SMs, averaged over time"),
    ("sm_occupancy_pct", "SM occupancy", R, "%", "gpm", "Active warps / maximum"),
    ("tensor_util_pct", "Tensor core activity", R, "%", "gpm", "Any tensor operation"),
    ("dram_util_pct", "Memory bandwidth used", R, "%", "gpm", "Of theoretical bandwidth"),
)  # fmt: skip


class Registry(Mapping[str, Metric]):
    """Metrics by name; a name with a number in the place of "{n}", such as core7_util_pct, is found too."""

    _NUMBER = re.compile(r"(?<=^core)\d+")

    def __init__(self, rows: tuple[_Row, ...]) -> None:
        self._metrics = {
            name: Metric(label=label, unit=unit, kind=kind, sources=tuple(sources.split()), description=text)
            for name, label, kind, unit, sources, text in rows
        }

    def __getitem__(self, name: str) -> Metric:
        number = self._NUMBER.search(name)
        if number is None:
            return self._metrics[name]
        metric = self._metrics[self._NUMBER.sub("{n}", name)]
        return replace(metric, label=metric.label.replace("{n}", number.group()))

    def __iter__(self) -> Iterator[str]:
        return iter(self._metrics)

    def __len__(self) -> int:
        return len(self._metrics)


METRICS = Registry(_HOST + _PRESSURE + _CONTAINER + _GPU)
