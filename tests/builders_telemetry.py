"""Telemetry for made-up trials: what host, cgroup and NVML would have read while the windows ran."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from harness.model.run import Run, Series, Trial, Window

SECOND_NS = 1_000_000_000
IDLE_W = 76.0
CPUS = 16

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLoad:
    """What a GPU shows in one variant: utilisation in percent and watts."""

    util: float
    power_w: float


def telemetry(
    random: np.random.Generator,
    device: str,
    start_ns: int,
    end_ns: int,
    windows: tuple[Window, ...],
    loads: Mapping[str, GpuLoad | None],
    interval_s: float,
) -> tuple[Series, ...]:
    """Sample the host, the container's cgroup and each of the device's GPUs every `interval_s`."""
    t_ns = np.arange(start_ns, end_ns, int(interval_s * SECOND_NS), dtype=np.int64)
    t_ns = t_ns + random.integers(0, 500_000, len(t_ns))
    variant_of_tick = variants_of_ticks(t_ns, windows)
    busy = np.array([variant != "" for variant in variant_of_tick])
    series = [
        _host(random, t_ns, busy),
        _cores(random, t_ns, busy),
        _cpufreq(random, t_ns),
        _cgroup(random, t_ns, busy),
    ]
    for name in device.split("+"):
        if name != "cpu":
            series += _nvml(random, name, t_ns, variant_of_tick, loads)
    return tuple(series)


def variants_of_ticks(t_ns: NDArray[np.int64], windows: tuple[Window, ...]) -> list[str]:
    """Name the variant in whose window each tick lies, "" outside all of them."""
    if not windows:
        return [""] * len(t_ns)
    starts = np.array([window.start_ns for window in windows])
    at = np.searchsorted(starts, t_ns, side="right") - 1
    return [
        windows[i].variant if i >= 0 and t <= windows[i].end_ns else ""
        for i, t in zip(at.tolist(), t_ns.tolist(), strict=True)
    ]


def _noisy(random: np.random.Generator, values: Floats, sigma: float, low: float, high: float) -> Floats:
    return np.clip(values + random.normal(0.0, sigma, len(values)), low, high)


def _host(random: np.random.Generator, t_ns: NDArray[np.int64], busy: NDArray[np.bool_]) -> Series:
    n = len(t_ns)
    columns = {
        "cpu_util_pct": _noisy(random, np.where(busy, 79.0, 9.0), 1.0, 0, 100),
        "cpu_steal_pct": np.zeros(n),
        "cpu_iowait_pct": _noisy(random, np.full(n, 0.2), 0.1, 0, 100),
        "load1": _noisy(random, np.full(n, 9.0), 0.2, 0, 100),
        "mem_used_bytes": _noisy(random, np.where(busy, 9.1e9, 7.5e9), 2e7, 0, 1.3e11),
        "disk_read_bytes": np.cumsum(_noisy(random, np.full(n, 2e3), 1e3, 0, 1e10)),
        "net_recv_bytes": np.cumsum(_noisy(random, np.full(n, 90.0), 30.0, 0, 1e10)),
    }
    return Series(source="host", device="host", t_ns=t_ns, columns=columns)


def _cores(random: np.random.Generator, t_ns: NDArray[np.int64], busy: NDArray[np.bool_]) -> Series:
    columns = {
        f"core{core}_util_pct": _noisy(random, np.where(busy, 79.0, 9.0), 6.0, 0, 100) for core in range(CPUS)
    }
    return Series(source="host", device="cores", t_ns=t_ns, columns=columns)


def _cpufreq(random: np.random.Generator, t_ns: NDArray[np.int64]) -> Series:
    columns = {
        "cpu_freq_mhz": _noisy(random, np.full(len(t_ns), 3700.0), 15.0, 800, 4000),
        "cpu_throttle_events": np.zeros(len(t_ns)),
    }
    return Series(source="cpufreq", device="host", t_ns=t_ns, columns=columns)


def _cgroup(random: np.random.Generator, t_ns: NDArray[np.int64], busy: NDArray[np.bool_]) -> Series:
    columns = {
        "cpu_usage_s": counter(t_ns, _noisy(random, np.where(busy, 12.4, 1.0), 0.2, 0, CPUS)),
        "cpu_periods": np.zeros(len(t_ns)),
        "cpu_throttled_periods": np.zeros(len(t_ns)),
        "cpu_throttled_s": np.zeros(len(t_ns)),
        "mem_used_bytes": _noisy(random, np.where(busy, 1.9e9, 0.6e9), 1e7, 0, 1.3e11),
    }
    return Series(source="cgroup", device="container", t_ns=t_ns, columns=columns)


def counter(t_ns: NDArray[np.int64], rate: Floats, start: float = 0.0) -> Floats:
    """Integrate a rate, so that a counter and the gauge beside it agree."""
    return np.asarray(start + np.cumsum(rate * np.diff(t_ns, prepend=t_ns[:1]) / SECOND_NS))


def _nvml(
    random: np.random.Generator,
    name: str,
    t_ns: NDArray[np.int64],
    variant_of_tick: list[str],
    loads: Mapping[str, GpuLoad | None],
) -> tuple[Series, Series, Series]:
    idle = GpuLoad(util=0.0, power_w=IDLE_W)
    n = len(t_ns)
    at = [loads.get(variant) or idle for variant in variant_of_tick]
    util = np.array([load.util for load in at])
    power = _noisy(random, np.array([load.power_w for load in at]), 2.0, 40, 700)
    columns = {
        "gpu_util_pct": np.round(_noisy(random, util, 0.6, 0, 100)),
        "mem_util_pct": np.round(_noisy(random, util * 0.4, 0.6, 0, 100)),
        "mem_used_bytes": np.full(n, 1.46e11),
        "power_instant_w": power,
        "power_usage_w": power,
        "power_limit_w": np.full(n, 700.0),
        "temperature_c": np.round(31.0 + power / 25.0),
        "sm_clock_mhz": np.where(util > 0, 1980.0, 345.0),
        "mem_clock_mhz": np.full(n, 3201.0),
        "performance_state": np.zeros(n),
        "power_capped_s": np.zeros(n),
        "throttle_reasons": np.where(util > 0, 0.0, 1.0),
        "throttle_idle": np.where(util > 0, 0.0, 1.0),
        "throttle_sw_power_cap": np.zeros(n),
        "throttle_hw_slowdown": np.zeros(n),
        "throttle_sw_thermal": np.zeros(n),
        "throttle_hw_thermal": np.zeros(n),
    }
    gpm = {
        "graphics_util_pct": _noisy(random, util, 0.4, 0, 100),
        "sm_util_pct": _noisy(random, util * 0.9, 0.6, 0, 100),
        "sm_occupancy_pct": _noisy(random, util * 0.4, 0.6, 0, 100),
        "tensor_util_pct": _noisy(random, util * 0.3, 0.4, 0, 100),
        "dram_util_pct": _noisy(random, util * 0.45, 0.4, 0, 100),
    }
    average = np.convolve(power, np.full(10, 0.1), "same")
    # Every second, and once more when sampling ends.
    rare = np.unique(np.append(np.arange(0, n, 10), n - 1))
    slow_t = t_ns[rare]
    slow = {
        "energy_j": counter(t_ns, power, 51_234.0)[rare],
        "power_average_w": average[rare],
        "mem_temperature_c": np.round(36.0 + power / 25.0)[rare],
        "thermal_capped_s": np.zeros(len(slow_t)),
        "pcie_send_bytes": counter(t_ns, util * 1e6)[rare],
        "pcie_receive_bytes": counter(t_ns, util * 4e6)[rare],
        "pcie_link_gen": np.full(len(slow_t), 5.0),
        "pcie_link_width": np.full(len(slow_t), 16.0),
        "ecc_corrected": np.zeros(len(slow_t)),
        "ecc_uncorrected": np.zeros(len(slow_t)),
        "xid_errors": np.zeros(len(slow_t)),
        "foreign_processes": np.zeros(len(slow_t)),
        "foreign_mem_bytes": np.zeros(len(slow_t)),
    }
    return (
        Series(source="nvml", device=name, t_ns=t_ns, columns=columns),
        Series(source="gpm", device=name, t_ns=t_ns, columns=gpm),
        Series(source="nvml_slow", device=name, t_ns=slow_t, columns=slow),
    )


def retold(run: Run, device: str, source: str, **columns: float | Floats | None) -> Run:
    """Change columns of a source in all trials on `device`: to one value, to values, or away with None.

    `source` "*" takes all telemetry away; a source that was not there is added on the host's ticks.
    """
    return replace(
        run,
        trials=tuple(
            replace(trial, telemetry=_retold(trial, source, columns)) if trial.device == device else trial
            for trial in run.trials
        ),
    )


def _retold(trial: Trial, source: str, columns: Mapping[str, float | Floats | None]) -> tuple[Series, ...]:
    if source == "*":
        return ()
    series = list(trial.telemetry)
    if all(one.source != source for one in series):
        series.append(Series(source=source, device="container", t_ns=series[0].t_ns, columns={}))
    return tuple(
        replace(one, columns=_changed(one, columns))
        if one.source == source and one.device != "cores"
        else one
        for one in series
    )


def _changed(series: Series, columns: Mapping[str, float | Floats | None]) -> Mapping[str, Floats]:
    new = {name: values for name, values in series.columns.items() if columns.get(name, 0.0) is not None}
    for name, value in columns.items():
        if value is not None:
            new[name] = np.broadcast_to(np.asarray(value, dtype=np.float64), series.t_ns.shape)
    return new
