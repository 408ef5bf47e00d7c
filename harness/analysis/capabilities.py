"""What a machine can do, beside data sheets; how much of it workloads use.

The use of the peak is model FLOPs utilisation (MFU) as Chowdhery et al. 2022 ("PaLM", appendix B) define it: the
operations that the model needs, not those that ran, over the peak of the precision that it computes in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from harness.analysis.case import Case
from harness.analysis.generation import needed_bandwidth
from harness.analysis.telemetry_means import steady_means
from harness.analysis.trust import PCIE_LANE_BYTES_PER_S
from harness.intervals import estimate
from harness.model.analysis import Capability, Endurance, PeakUse, Reading
from harness.model.device import gpu_names, is_gpu, positions
from harness.model.metrics import METRICS
from harness.model.platform import Gpu
from harness.model.run import Manifest, Run, Trial
from workloads.protocol import (
    COPIES,
    CORE_SUFFIX,
    FLOPS,
    MACHINE,
    PEER_PREFIX,
    PRECISION,
    PRECISIONS,
    RATE,
    SOAK,
    WORK,
)
from workloads.variants import BASELINE, measures_speed


def capabilities(run: Run) -> tuple[Capability, ...]:
    """Return the capabilities of each device in the order measured."""
    measured: dict[tuple[str, str], list[tuple[float, Mapping[Reading, float]]]] = {}
    for trial in run.trials:
        if trial.workload == MACHINE:
            means = steady_means(trial)
            for metric in trial.metrics:
                if metric.name == RATE and not metric.variant.startswith(PEER_PREFIX):
                    readings = means.get(metric.variant, {})
                    measured.setdefault((trial.device, metric.variant), []).append((metric.value, readings))
    result = []
    for (device, name), each in measured.items():
        kind, gpu = kind_of(run.manifest, device), gpu_of(run.manifest, device)
        if found := capability(device, name, [value for value, _ in each], kind, gpu):
            mhz, power_w = (
                [
                    readings[key]
                    for _, readings in each
                    if (key := Reading("nvml", device, metric)) in readings
                ]
                for metric in ("sm_clock_mhz", "power_instant_w")
            )
            found = replace(
                found, mhz=median(mhz) if mhz else None, power_w=median(power_w) if power_w else None
            )
            result.append(found)
    return tuple(result)


def capability(
    device: str, name: str, values: Sequence[float], kind: str, gpu: Gpu | None
) -> Capability | None:
    """Return a capability measured in several trials beside the GPU's data sheet; None without a positive value."""
    value = estimate(values, unit_of(name))
    if value is None or value.median <= 0:
        return None
    return Capability(device=device, name=name, kind=kind, value=value, sheet=_sheet(gpu, name))


def unit_of(name: str) -> str:
    """Return the unit of a capability's values."""
    kind = name.removesuffix(CORE_SUFFIX)
    if kind in PRECISIONS:
        return "FLOP/s"
    return {"jpeg": "pictures/s", "launch": "kernels/s"}.get(kind, "B/s")


def gpu_of(manifest: Manifest, device: str) -> Gpu | None:
    """Return the GPU that a device consists of; None for several, for a CPU and if it is not known."""
    known = [manifest.gpus[each] for each in positions(device) if each < len(manifest.gpus)]
    return known[0] if len(known) == 1 else None


def kind_of(manifest: Manifest, device: str) -> str:
    """Return what values are comparable among: a GPU's model, or a CPU's with the number of its CPUs in use."""
    gpu = gpu_of(manifest, device)
    if gpu:
        return gpu.name
    if is_gpu(device):
        names = [each.name for each in manifest.gpus[:1]]
        return f"{len(positions(device))} × {names[0] if names else 'GPU'}"
    model = manifest.system.get("host_processor_model_name", "")
    limits = (manifest.options.cpus, manifest.options.cpu_quota)
    cpus = manifest.system.get("host_processor_vcpu_count", "")
    return ", ".join([model, f"{cpus} vCPU", *(str(limit) for limit in limits if limit)])


def _sheet(gpu: Gpu | None, name: str) -> float | None:
    """Return the data sheet's value; for copies, what the GPU's link can carry in one direction."""
    if gpu and name in COPIES and gpu.pcie_gen in PCIE_LANE_BYTES_PER_S and gpu.pcie_width:
        return PCIE_LANE_BYTES_PER_S[gpu.pcie_gen] * gpu.pcie_width
    sheet = data_sheet(gpu.name) if gpu else None
    if sheet is None or name not in (*PRECISIONS, "memory"):
        return None
    value: float = getattr(sheet, name)
    return value * (1e9 if name == "memory" else 1e12) or None


class DataSheet(NamedTuple):
    """Peaks in TFLOP/s without sparsity (0 where the document gives none), and memory in GB/s."""

    fp64: float
    fp32: float
    tf32: float
    bf16: float
    fp16: float
    fp8: float
    memory: float
    source: str


_VOLTA = "NVIDIA V100 data sheet 1165301-r5, 2020"
_AMPERE = "NVIDIA A100 data sheet 1758950-r4, 2021"
_HOPPER = "NVIDIA H100 data sheet, 2023"
_SHEETS = {
    "T4": DataSheet(0.25, 8.1, 0, 0, 65, 0, 320, "NVIDIA T4 data sheet 951643, 2019"),
    "V100-SXM2-16GB": DataSheet(7.8, 15.7, 0, 0, 125, 0, 900, _VOLTA),
    "V100-SXM2-32GB": DataSheet(7.8, 15.7, 0, 0, 125, 0, 900, _VOLTA),
    "V100-PCIE-16GB": DataSheet(7.0, 14.0, 0, 0, 112, 0, 900, _VOLTA),
    "V100-PCIE-32GB": DataSheet(7.0, 14.0, 0, 0, 112, 0, 900, _VOLTA),
    "A10": DataSheet(0, 31.2, 62.5, 125, 125, 0, 600, "NVIDIA A10 data sheet, 2021"),
    "A10G": DataSheet(0, 35, 35, 70, 70, 0, 600, "NVIDIA A10G data sheet, 2021"),
    "A30": DataSheet(10.3, 10.3, 82, 165, 165, 0, 933, "NVIDIA A30 data sheet, 2022"),
    "L4": DataSheet(0, 30.3, 60, 121, 121, 242, 300, "NVIDIA L4 data sheet, 2023"),
    "L40S": DataSheet(0, 91.6, 183, 362, 362, 733, 864, "NVIDIA L40S data sheet, 2023"),
    "A100-SXM4-40GB": DataSheet(19.5, 19.5, 156, 312, 312, 0, 1555, _AMPERE),
    "A100-SXM4-80GB": DataSheet(19.5, 19.5, 156, 312, 312, 0, 2039, _AMPERE),
    "A100-PCIE-40GB": DataSheet(19.5, 19.5, 156, 312, 312, 0, 1555, _AMPERE),
    "A100 80GB PCIe": DataSheet(19.5, 19.5, 156, 312, 312, 0, 1935, _AMPERE),
    "H100 PCIe": DataSheet(51, 51, 378, 756, 756, 1513, 2000, _HOPPER),
    "H100 80GB HBM3": DataSheet(67, 67, 494.5, 989.5, 989.5, 1979, 3350, _HOPPER),
    "H100 NVL": DataSheet(60, 60, 417.5, 835.5, 835.5, 1670.5, 3900, "NVIDIA H100 data sheet, 2024"),
    "H200": DataSheet(67, 67, 494.5, 989.5, 989.5, 1979, 4800, "NVIDIA H200 data sheet, 2024"),
    "H200 NVL": DataSheet(60, 60, 417.5, 835.5, 835.5, 1670.5, 4800, "NVIDIA H200 data sheet, 2024"),
    "GH200 480GB": DataSheet(67, 67, 494.5, 989.5, 989.5, 1979, 4000, "NVIDIA GH200 data sheet, 2023"),
    "GH200 144G HBM3e": DataSheet(67, 67, 494.5, 989.5, 989.5, 1979, 4900, "NVIDIA GH200 data sheet, 2024"),
    "B200": DataSheet(37, 75, 1125, 2250, 2250, 4500, 8000, "NVIDIA HGX B200 data sheet, 2024"),
}  # fmt: skip


def data_sheet(name: str) -> DataSheet | None:
    """Return the data sheet of a GPU by the name that NVML gives it; None if it is not in the table."""
    return _SHEETS.get(name.removeprefix("NVIDIA ").removeprefix("Tesla "))


_PRECISIONS = {"float16": "fp16", "bfloat16": "bf16", "float64": "fp64"}


def peak_use(case: Case, variant: str, measured: Sequence[Capability]) -> PeakUse | None:
    """Return a variant's use of the measured and the data sheet's peak; None if its operations are not known."""
    devices = case.gpus or (case.device,)
    peaks = {each.name: each for each in measured if each.device == devices[0]}
    # Tuned trains the same model, and its own step may have no count.
    flops = case.metric(variant, FLOPS) or case.metric(BASELINE, FLOPS)
    if not flops or not measures_speed(variant):
        return None
    result, precision = case.variants[variant], _precision(case, variant, peaks)
    peak, speed = peaks.get(precision), result.throughput.median
    steps_per_s = speed / max(1, result.batch_size)
    return PeakUse(
        flops_per_sample=flops,
        flops_per_s=flops * speed,
        precision=precision,
        measured_peak=peak.value.median * len(devices) if peak else None,
        sheet_peak=peak.sheet * len(devices) if peak and peak.sheet else None,
        needed_bandwidth=needed_bandwidth(case, variant, result.batch_size, steps_per_s, measured),
        reported_bandwidth=case.gpu_share(variant, ("gpm", "dram_util_pct")),
    )


def _precision(case: Case, variant: str, peaks: dict[str, Capability]) -> str:
    """Return the capability that a variant's products use: float32 is TF32 where the GPU has it."""
    chosen = [
        str(info.params.get(PRECISION, ""))
        for trial in case.trials
        for info in trial.variants
        if info.variant == variant
    ]
    name = max(chosen, key=chosen.count, default="").removeprefix("mixed_")
    return _PRECISIONS.get(name) or ("tf32" if "tf32" in peaks else "fp32")


# The sustained speed is the median of the last third; a device is steady when medians of BLOCK windows stay within
# STEADY_BAND of it.
BLOCK, STEADY_BAND = 5, 0.02
# Of several GPUs the slowest, the hungriest and the hottest.
_READINGS = {metric.name: metric.worst for metric in METRICS.values() if metric.worst}


def endurance(run: Run) -> tuple[Endurance, ...]:
    """Return what each saturated device sustained."""
    return tuple(result for trial in run.trials if (result := _endurance(trial)))


def _endurance(trial: Trial) -> Endurance | None:
    work = next((each.value for each in trial.metrics if (each.variant, each.name) == (SOAK, WORK)), None)
    windows = [each for each in trial.windows if each.variant == SOAK]
    if trial.workload != MACHINE or work is None or len(windows) < 3 * BLOCK:
        return None
    speeds = np.array([each.steps * work * 1e9 / (each.end_ns - each.start_ns) for each in windows])
    late = windows[-len(windows) // 3 :]
    sustained = float(np.median(speeds[-len(late) :]))
    medians = np.median(sliding_window_view(speeds, BLOCK), axis=1)
    unsteady = np.flatnonzero(np.abs(medians / sustained - 1) > STEADY_BAND)
    first = int(unsteady[-1]) + 1 if len(unsteady) else 0
    steady = (windows[first].start_ns - windows[0].start_ns) / 1e9 if first < len(medians) else None
    return Endurance(
        device=trial.device,
        cold=float(np.median(speeds[:BLOCK])),
        sustained=sustained,
        steady_s=steady,
        telemetry=dict(_late_means(trial, late[0].start_ns, late[-1].end_ns)),
        precision=next(
            (str(each.params.get(PRECISION, "")) for each in trial.variants if each.variant == SOAK), ""
        ),
    )


def _late_means(trial: Trial, start_ns: int, end_ns: int) -> Iterator[tuple[str, float]]:
    found = [
        each for each in trial.telemetry if each.source == "nvml" and each.device in gpu_names(trial.device)
    ]
    for name, worst in _READINGS.items():
        readings = [
            series.columns[name][(series.t_ns >= start_ns) & (series.t_ns <= end_ns)]
            for series in found
            if name in series.columns
        ]
        if means := [float(np.nanmean(values)) for values in readings if np.isfinite(values).any()]:
            yield name, worst(means)
