"""Energy per sample: mean power over a variant's windows / its throughput."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from harness.analysis.align import gpu_names
from harness.analysis.stats import estimate
from harness.analysis.trial_measures import Measure
from harness.model.analysis import GPU_POWER, Estimate

CPU_COUNTER = "CPU package energy counter (RAPL), all that runs on the package"
_RAPL, _JOULES = "rapl.", ".energy_j_per_s"


def energy_per_sample(
    group: Sequence[Measure], means: Sequence[Mapping[str, float]]
) -> tuple[Estimate | None, str]:
    """Return joules per sample, summed over all GPUs of the device, and their source.

    Args:
        group: trials of a variant.
        means: the telemetry of each, from steady_means.
    """
    for metrics, label in _sources(group[0].trial.device, means):
        joules = [
            sum(telemetry[metric] for metric in metrics) / each.throughput
            for each, telemetry in zip(group, means, strict=True)
            if all(metric in telemetry for metric in metrics)
        ]
        if metrics and joules:
            return estimate(joules, "J/sample"), label
    return None, ""


def _sources(device: str, means: Sequence[Mapping[str, float]]) -> Iterator[tuple[Sequence[str], str]]:
    """Yield (metrics in watts that add up to the device's power, label), most accurate first."""
    gpus = gpu_names(device)
    for source, metric in GPU_POWER if gpus else ():
        label = "instant GPU power" if "instant" in metric else "GPU power"
        yield [f"{source}.{gpu}.{metric}" for gpu in gpus], label
    if not gpus:
        zones = dict.fromkeys(name for telemetry in means for name in telemetry if _is_package(name))
        yield list(zones), CPU_COUNTER


def _is_package(metric: str) -> bool:
    """Return whether a metric is a RAPL package or its DRAM; other zones overlap with these."""
    zone = metric.removeprefix(_RAPL).removesuffix(_JOULES)
    return (
        metric == f"{_RAPL}{zone}{_JOULES}"
        and zone.startswith("package")
        and "_" not in zone.removesuffix("_dram")
    )
