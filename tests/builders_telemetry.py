"""Telemetry for made-up trials: what host, cgroup and NVML would have read while the windows ran."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.model import Series, Window

SECOND_NS = 1_000_000_000
IDLE_W = 76.0

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLoad:
    """What a card shows in one leg: utilisation in percent and watts."""

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
    """Sample the host, the container's cgroup and each of the device's cards every `interval_s`."""
    t_ns = np.arange(start_ns, end_ns, int(interval_s * SECOND_NS), dtype=np.int64)
    t_ns = t_ns + random.integers(0, 500_000, len(t_ns))
    leg_of_tick = _legs(t_ns, windows)
    busy = np.array([leg != "" for leg in leg_of_tick])
    series = [_host(random, t_ns, busy), _cgroup(random, t_ns, busy)]
    for name in device.split("+"):
        if name != "cpu":
            series.append(_nvml(random, name, t_ns, leg_of_tick, loads))
    return tuple(series)


def _legs(t_ns: NDArray[np.int64], windows: tuple[Window, ...]) -> list[str]:
    if not windows:
        return [""] * len(t_ns)
    starts = np.array([window.start_ns for window in windows])
    at = np.searchsorted(starts, t_ns, side="right") - 1
    return [
        windows[i].leg if i >= 0 and t <= windows[i].end_ns else ""
        for i, t in zip(at.tolist(), t_ns.tolist(), strict=True)
    ]


def _noisy(random: np.random.Generator, values: Floats, sigma: float, low: float, high: float) -> Floats:
    return np.clip(values + random.normal(0.0, sigma, len(values)), low, high)


def _host(random: np.random.Generator, t_ns: NDArray[np.int64], busy: NDArray[np.bool_]) -> Series:
    n = len(t_ns)
    columns = {
        "cpu_util_pct": _noisy(random, np.where(busy, 82.0, 9.0), 3.0, 0, 100),
        "cpu_steal_pct": np.zeros(n),
        "cpu_iowait_pct": _noisy(random, np.full(n, 0.2), 0.1, 0, 100),
        "cpu_freq_mhz": _noisy(random, np.full(n, 3700.0), 15.0, 800, 4000),
        "mem_used_bytes": _noisy(random, np.where(busy, 9.1e9, 7.5e9), 2e7, 0, 1.3e11),
        "disk_read_bytes_per_s": _noisy(random, np.full(n, 2e4), 1e4, 0, 1e10),
        "net_recv_bytes_per_s": _noisy(random, np.full(n, 900.0), 300.0, 0, 1e10),
    }
    return Series(source="host", device="host", t_ns=t_ns, columns=columns)


def _cgroup(random: np.random.Generator, t_ns: NDArray[np.int64], busy: NDArray[np.bool_]) -> Series:
    columns = {
        "cpu_util_pct": _noisy(random, np.where(busy, 1240.0, 100.0), 30.0, 0, 1600),
        "cpu_throttled_pct": np.zeros(len(t_ns)),
        "mem_used_bytes": _noisy(random, np.where(busy, 1.9e9, 0.6e9), 1e7, 0, 1.3e11),
    }
    return Series(source="cgroup", device="container", t_ns=t_ns, columns=columns)


def _nvml(
    random: np.random.Generator,
    name: str,
    t_ns: NDArray[np.int64],
    leg_of_tick: list[str],
    loads: Mapping[str, GpuLoad | None],
) -> Series:
    idle = GpuLoad(util=0.0, power_w=IDLE_W)
    at = [loads.get(leg) or idle for leg in leg_of_tick]
    util = np.array([load.util for load in at])
    power = _noisy(random, np.array([load.power_w for load in at]), 2.0, 40, 700)
    # The counter integrates the power it shows, so that both ways to energy agree.
    seconds = np.diff(t_ns, prepend=t_ns[:1]) / SECOND_NS
    columns = {
        "gpu_util_pct": np.round(_noisy(random, util, 0.6, 0, 100)),
        "mem_util_pct": np.round(_noisy(random, util * 0.4, 0.6, 0, 100)),
        "mem_used_bytes": np.full(len(t_ns), 1.46e11),
        "power_w": power,
        "energy_j": 51_234.0 + np.cumsum(power * seconds),
        "temperature_c": np.round(31.0 + power / 25.0),
        "sm_clock_mhz": np.where(util > 0, 1980.0, 345.0),
        "mem_clock_mhz": np.full(len(t_ns), 3201.0),
        "throttle_reasons": np.where(util > 0, 0.0, 1.0),
        "sm_active_pct": _noisy(random, util * 0.9, 0.6, 0, 100),
        "tensor_active_pct": _noisy(random, util * 0.3, 0.4, 0, 100),
    }
    return Series(source="nvml", device=name, t_ns=t_ns, columns=columns)
