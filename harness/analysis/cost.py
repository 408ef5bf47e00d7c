"""Money and energy for a training and for a million samples, from speeds, prices and counters.

The one number that was published about cost names neither workload nor prices, so that it can only stand
beside what is measured here, not be confirmed or refuted by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from harness.analysis.align import gpu_names
from harness.analysis.compare import CPU, GPU_OVER_CPU
from harness.model.analysis import Comparison, Cost, CostRatio, Estimate, Summary
from harness.model.run import Prices, Run
from workloads.protocol import BASELINE, TUNED, Published, Workload

HOUR_S = 3600.0
KWH_J = 3.6e6
MILLION = 1e6
VARIANTS = (BASELINE, TUNED)

CLAIM = Published(
    source="Training article, 2020, citing cloud vendors",
    system="CPUs only against CPUs with GPUs",
    device="gpu",
    value=30.0,
    unit="ratio",
    note="30 units of time without a GPU for 1 with; it names no workload, no hardware and no prices",
)


def costs(run: Run, summaries: Sequence[Summary]) -> tuple[Cost, ...]:
    """Return what each workload takes baseline and tuned; all that has a price or an energy reading."""
    declared = {workload.name: workload for workload in run.workloads}
    # Of workers that trained together each had a machine, which is paid for; see harness.fleet.multiworker.
    machines = len(run.manifest.placement.nodes) if run.manifest.placement else 1
    found = (
        _cost(run.manifest.prices, one, declared.get(one.workload), machines)
        for one in summaries
        if one.variant in VARIANTS
    )
    return tuple(one for one in found if one.per_hour is not None or one.energy_j_per_sample is not None)


def cost_ratios(run: Run, ratios: Sequence[Comparison]) -> tuple[CostRatio, ...]:
    """Return, for each device beside the CPU, what the same work costs on the CPU over on it."""
    return tuple(_cost_ratios(run.manifest.prices, ratios))


def hourly(prices: Prices | None, device: str) -> float | None:
    """Return the price of an hour in which `device` works; what is said of its kind comes first."""
    if prices is None:
        return None
    if device == CPU:
        return prices.machine if prices.cpu is None else prices.cpu
    if prices.gpu is not None:
        return prices.gpu
    return prices.machine if prices.each_gpu is None else prices.each_gpu * len(gpu_names(device))


def _cost(prices: Prices | None, summary: Summary, workload: Workload | None, machines: int) -> Cost:
    rate = _product(hourly(prices, summary.device), machines)
    electricity = prices.electricity_per_kwh if prices else None
    currency = prices.currency if prices else ""
    second = None if rate is None else rate / HOUR_S
    joule = None if electricity is None else electricity / KWH_J
    energy = summary.energy_j_per_sample
    samples = _trained_samples(summary, workload)
    return Cost(
        workload=summary.workload,
        device=summary.device,
        variant=summary.variant,
        per_hour=rate,
        training=_times(summary.training_s, second, currency),
        training_projected=summary.training_projected,
        training_bound=summary.training_bound,
        per_million_samples=_times(_inverse(summary.throughput), _product(second, MILLION), currency),
        energy_j_per_sample=energy,
        energy_source=summary.energy_source,
        training_kwh=_times(energy, _product(samples, 1 / KWH_J), "kWh"),
        electricity_training=_times(energy, _product(samples, joule), currency),
        electricity_per_million_samples=_times(energy, _product(joule, MILLION), currency),
    )


def _trained_samples(summary: Summary, workload: Workload | None) -> int | None:
    """Return how many samples the published epochs are; None where the variant trains nothing."""
    if workload is None or summary.training_s is None:
        return None
    return (workload.samples_per_epoch or workload.data.train) * workload.epochs


def _product(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one * other


def _times(value: Estimate | None, factor: float | None, unit: str) -> Estimate | None:
    if value is None or factor is None:
        return None
    return replace(
        value, median=value.median * factor, low=value.low * factor, high=value.high * factor, unit=unit
    )


def _inverse(value: Estimate) -> Estimate:
    return replace(value, median=1 / value.median, low=1 / value.high, high=1 / value.low)


def _cost_ratios(prices: Prices | None, ratios: Sequence[Comparison]) -> Iterator[CostRatio]:
    on_cpu = hourly(prices, CPU)
    for one in ratios:
        device, _, variant = one.numerator.partition("/")
        rate = hourly(prices, device)
        if one.kind != GPU_OVER_CPU or variant not in VARIANTS or on_cpu is None or not rate:
            continue
        ratio = _times(one.ratio, on_cpu / rate, "ratio")
        if ratio is not None:
            yield CostRatio(
                workload=one.workload,
                device=device,
                variant=variant,
                ratio=ratio,
                time_ratio=one.ratio,
                break_even=on_cpu * one.ratio.median,
            )
