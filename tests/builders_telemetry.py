"""Simulated telemetry of host, cgroup and NVML that matches the windows of a trial."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from harness.model.run import Run, Series, Window

SECOND_NS = 1_000_000_000
CPUS = 16

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLoad:
    """Load of a GPU in one variant: utilisation in percent, power in watts."""

    util: float
    power_w: float


_IDLE = GpuLoad(util=0.0, power_w=76.0)


def telemetry(
    random: np.random.Generator,
    device: str,
    start_ns: int,
    end_ns: int,
    windows: tuple[Window, ...],
    loads: Mapping[str, GpuLoad | None],
) -> tuple[Series, ...]:
    """Sample the host, the container's cgroup and each of the device's GPUs at 10 Hz."""
    t_ns = np.arange(start_ns, end_ns, SECOND_NS // 10, dtype=np.int64)
    t_ns = t_ns + random.integers(0, 500_000, len(t_ns))
    variants = _variants_of_ticks(t_ns, windows)
    busy = np.array([variant != "" for variant in variants])

    def noisy(values: Floats | float, sigma: float, high: float = 100.0) -> Floats:
        return np.clip(values + random.normal(0.0, sigma, len(t_ns)), 0.0, high)

    def series(source: str, name: str, **columns: Floats | float) -> Series:
        filled = {key: np.broadcast_to(np.asarray(each, float), t_ns.shape) for key, each in columns.items()}
        return Series(source=source, device=name, t_ns=t_ns, columns=filled)

    def gpu(name: str) -> Iterator[Series]:
        tick_loads = [loads.get(variant) or _IDLE for variant in variants]
        util = np.array([load.util for load in tick_loads])
        power = noisy(np.array([load.power_w for load in tick_loads]), 2.0, 700.0)
        yield series(
            "nvml", name, gpu_util_pct=np.round(noisy(util, 0.6)), power_instant_w=power, power_usage_w=power,
            temperature_c=np.round(31.0 + power / 25.0), sm_clock_mhz=np.where(util > 0, 1980.0, 345.0),
            power_capped_s=0.0,
        )  # fmt: skip
        shares = {"graphics": 1.0, "sm": 0.9, "tensor": 0.3, "dram": 0.45}
        columns = {f"{key}_util_pct": noisy(util * share, 0.4) for key, share in shares.items()}
        yield series("gpm", name, **columns)
        whole = series(
            "nvml_slow", name, power_limit_w=700.0, xid_errors=0.0, ecc_uncorrected=0.0, foreign_processes=0.0
        )
        # Every second, and once more when sampling ends.
        rare = np.unique(np.append(np.arange(0, len(t_ns), 10), len(t_ns) - 1))
        columns = {key: values[rare] for key, values in whole.columns.items()}
        yield replace(whole, t_ns=t_ns[rare], columns=columns)

    usage = noisy(np.where(busy, 79.0, 9.0), 1.0)
    return (
        series("host", "host", cpu_util_pct=usage, cpu_steal_pct=0.0, cpu_iowait_pct=noisy(0.2, 0.1)),
        series("host", "cores", **{f"core{core}_util_pct": noisy(usage, 6.0) for core in range(CPUS)}),
        series("cpufreq", "host", cpu_freq_mhz=noisy(3700.0, 15.0, 4000.0), cpu_throttle_events=0.0),
        series(
            "cgroup",
            "container",
            # Launching the work of a GPU takes one CPU.
            cpu_usage_s=counter(
                t_ns, noisy(np.where(busy, 12.4 if device == "cpu" else 1.4, 1.0), 0.2, CPUS)
            ),
            cpu_throttled_s=0.0,
            mem_used_bytes=noisy(np.where(busy, 1.9e9, 0.6e9), 1e7, 1.3e11),
        ),
        *(each for name in device.split("+") if name != "cpu" for each in gpu(name)),
    )


def _variants_of_ticks(t_ns: NDArray[np.int64], windows: tuple[Window, ...]) -> list[str]:
    """Return the variant of the window at each tick, "" outside all windows."""
    if not windows:
        return [""] * len(t_ns)
    starts = np.array([window.start_ns for window in windows])
    indices = np.searchsorted(starts, t_ns, side="right") - 1
    return [
        windows[index].variant if index >= 0 and t <= windows[index].end_ns else ""
        for index, t in zip(indices.tolist(), t_ns.tolist(), strict=True)
    ]


def counter(t_ns: NDArray[np.int64], rate: Floats, start: float = 0.0) -> Floats:
    """Integrate a rate, so that a counter agrees with its gauge."""
    return np.asarray(start + np.cumsum(rate * np.diff(t_ns, prepend=t_ns[:1]) / SECOND_NS))


def without_columns(run: Run, source: str, *columns: str) -> Run:
    def reduced(series: Series) -> Series:
        remaining = {name: values for name, values in series.columns.items() if name not in columns}
        return replace(series, columns=remaining) if series.source == source else series

    trials = (replace(trial, telemetry=tuple(map(reduced, trial.telemetry))) for trial in run.trials)
    return replace(run, trials=tuple(trials))
