"""Energy per sample, from mean power over a variant's windows, and the cost of training and of a million samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from harness.analysis.stats import estimate
from harness.analysis.trial_measures import Measure
from harness.model.analysis import GPU_POWER, Cost, Estimate, Reading, Summary
from harness.model.device import CPU, gpu_names
from harness.model.run import Prices, Run
from workloads.protocol import BASELINE, TUNED

CPU_COUNTER = "CPU package energy counter (RAPL), all that runs on the package"


def energy_per_sample(
    group: Sequence[Measure], means: Sequence[Mapping[Reading, float]]
) -> tuple[Estimate | None, str]:
    """Return joules per sample, summed over all GPUs of the device, and their source.

    Args:
        group: trials of a variant.
        means: the telemetry of each, from steady_means.
    """
    for readings, label in _sources(group[0].trial.device, means):
        joules = [
            sum(telemetry[reading] for reading in readings) / each.throughput
            for each, telemetry in zip(group, means, strict=True)
            if telemetry.keys() >= set(readings)
        ]
        if readings and joules:
            return estimate(joules, "J/sample"), label
    return None, ""


def _sources(
    device: str, means: Sequence[Mapping[Reading, float]]
) -> Iterator[tuple[Sequence[Reading], str]]:
    """Yield (readings in watts that add up to the device's power, label), most accurate first."""
    gpus = gpu_names(device)
    for source, metric in GPU_POWER if gpus else ():
        label = "instant GPU power" if "instant" in metric else "GPU power"
        yield [Reading(source, gpu, metric) for gpu in gpus], label
    if not gpus:
        yield (
            list(dict.fromkeys(each for telemetry in means for each in telemetry if _is_package(each))),
            CPU_COUNTER,
        )


def _is_package(reading: Reading) -> bool:
    """Return whether this is the energy of a RAPL package or its DRAM; other zones overlap with these."""
    zone = reading.device
    return (
        (reading.source, reading.metric) == ("rapl", "energy_j_per_s")
        and zone.startswith("package")
        and "_" not in zone.removesuffix("_dram")
    )


HOUR_S = 3600.0
KWH_J = 3.6e6
MILLION = 1e6


def costs(run: Run, summaries: Sequence[Summary]) -> tuple[Cost, ...]:
    """Return the costs of baseline and tuned for each workload; empty without prices."""
    prices = run.manifest.prices
    if prices is None:
        return ()
    return tuple(_cost(prices, each) for each in summaries if each.variant in (BASELINE, TUNED))


def hourly(prices: Prices | None, device: str) -> float | None:
    """Return the hourly price of using `device`; a price for its kind takes precedence."""
    if prices is None:
        return None
    if device == CPU:
        return prices.machine if prices.cpu is None else prices.cpu
    if prices.gpu is not None:
        return prices.gpu
    return prices.machine if prices.each_gpu is None else prices.each_gpu * len(gpu_names(device))


def _cost(prices: Prices, summary: Summary) -> Cost:
    rate, samples, electricity = (
        hourly(prices, summary.device),
        summary.training_samples,
        prices.electricity_per_kwh,
    )
    speed = summary.throughput
    sample_s = replace(speed, median=1 / speed.median, low=1 / speed.high, high=1 / speed.low)
    joules = None if samples is None else _times(summary.energy_j_per_sample, samples, "J")
    second = None if rate is None else rate / HOUR_S
    return Cost(
        per_hour=rate,
        training=_times(summary.training_s, second, prices.currency),
        electricity=_times(joules, None if electricity is None else electricity / KWH_J, prices.currency),
        per_million_samples=_times(sample_s, None if second is None else second * MILLION, prices.currency),
        **summary.key._asdict(),
    )


def _times(value: Estimate | None, factor: float | None, unit: str) -> Estimate | None:
    if value is None or factor is None:
        return None
    return replace(
        value, median=value.median * factor, low=value.low * factor, high=value.high * factor, unit=unit
    )
