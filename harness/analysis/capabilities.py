"""What a machine can do: medians over trials, beside data sheets and reference machines of its kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import geometric_mean, median

from harness.analysis.align import steady_means
from harness.analysis.data_sheets import data_sheet
from harness.analysis.impossible import PCIE_LANE_BYTES_PER_S
from harness.analysis.stats import estimate
from harness.model.analysis import Analysis, Capability, Normality
from harness.model.comparison import Extract
from harness.model.platform import Gpu
from harness.model.run import CPU, Manifest, Run, Status
from workloads.protocol import COPIES, CORE_SUFFIX, MACHINE, PRECISIONS, RATE

# Depends on the disk and on what is mounted, not on the kind of machine.
_INCOMPARABLE = frozenset({"read"})


def capabilities(run: Run) -> tuple[Capability, ...]:
    """Return the capabilities of each device in the order measured."""
    values: dict[tuple[str, str], list[float]] = {}
    readings: dict[tuple[str, str], list[Mapping[str, float]]] = {}
    for trial in run.trials:
        if trial.workload == MACHINE and trial.status is Status.OK:
            means = steady_means(trial)
            for metric in trial.metrics:
                if metric.name == RATE:
                    values.setdefault((trial.device, metric.variant), []).append(metric.value)
                    readings.setdefault((trial.device, metric.variant), []).append(
                        means.get(metric.variant, {})
                    )
    result = []
    for (device, name), each in values.items():
        measured = capability(device, name, each, _kind(run.manifest, device), _gpu(run.manifest, device))
        if measured:
            mhz, power_w = (
                [
                    found[key]
                    for found in readings[device, name]
                    if (key := f"nvml.{device}.{reading}") in found
                ]
                for reading in ("sm_clock_mhz", "power_instant_w")
            )
            result.append(
                replace(
                    measured, mhz=median(mhz) if mhz else None, power_w=median(power_w) if power_w else None
                )
            )
    return tuple(result)


def compared(analysis: Analysis, references: Sequence[Extract]) -> Analysis:
    """Return an analysis with its machine set beside reference machines of the same kind."""
    known = [one for extract in references for one in extract.capabilities]

    def same(each: Capability) -> tuple[float, ...]:
        return tuple(one.value.median for one in known if (one.kind, one.name) == (each.kind, each.name))

    measured = tuple(replace(each, references=same(each)) for each in analysis.capabilities)
    return replace(analysis, capabilities=measured, normality=normality(measured))


def capability(
    device: str, name: str, values: Sequence[float], kind: str, gpu: Gpu | None
) -> Capability | None:
    """Return a capability measured in several trials beside the GPU's data sheet; None without a positive value."""
    value = estimate(values, _unit(name))
    if value is None or value.median <= 0:
        return None
    return Capability(device=device, name=name, kind=kind, value=value, sheet=_sheet(gpu, name))


def normality(measured: Sequence[Capability]) -> tuple[Normality, ...]:
    """Compare each device that has references with them."""
    result = []
    for device in dict.fromkeys(each.device for each in measured):
        own = [each for each in measured if each.device == device and each.references]
        own = [each for each in own if each.name not in _INCOMPARABLE]
        if own:
            result.append(
                Normality(
                    device=device,
                    kind=own[0].kind,
                    ratio=geometric_mean(each.value.median / median(each.references) for each in own),
                    machines=max(len(each.references) for each in own),
                )
            )
    return tuple(result)


def _unit(name: str) -> str:
    kind = name.removesuffix(CORE_SUFFIX)
    if kind in PRECISIONS:
        return "FLOP/s"
    return {"jpeg": "pictures/s", "launch": "kernels/s"}.get(kind, "B/s")


def _gpu(manifest: Manifest, device: str) -> Gpu | None:
    positions = [int(part.removeprefix("gpu")) for part in device.split("+") if part != CPU]
    known = [manifest.gpus[each] for each in positions if each < len(manifest.gpus)]
    return known[0] if len(known) == 1 else None


def _kind(manifest: Manifest, device: str) -> str:
    """Return what values are comparable among: a GPU's model, or a CPU's with the number of its CPUs in use."""
    gpu = _gpu(manifest, device)
    if gpu:
        return gpu.name
    if device != CPU:
        names = [each.name for each in manifest.gpus[:1]]
        return f"{len(device.split('+'))} × {names[0] if names else 'GPU'}"
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
