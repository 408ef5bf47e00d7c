"""Cost of training and of a million samples, from speeds, prices and energy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.analysis.align import gpu_names
from harness.model.analysis import Cost, Estimate, Summary
from harness.model.run import CPU, Prices, Run
from harness.model.workload import Workload
from workloads.protocol import BASELINE, TUNED

HOUR_S = 3600.0
KWH_J = 3.6e6
MILLION = 1e6
VARIANTS = (BASELINE, TUNED)


def costs(run: Run, summaries: Sequence[Summary]) -> tuple[Cost, ...]:
    """Return the costs of baseline and tuned for each workload; empty without prices."""
    prices = run.manifest.prices
    if prices is None:
        return ()
    declared = {workload.name: workload for workload in run.workloads}
    return tuple(
        _cost(prices, each, declared.get(each.workload)) for each in summaries if each.variant in VARIANTS
    )


def hourly(prices: Prices | None, device: str) -> float | None:
    """Return the hourly price of using `device`; a price for its kind takes precedence."""
    if prices is None:
        return None
    if device == CPU:
        return prices.machine if prices.cpu is None else prices.cpu
    if prices.gpu is not None:
        return prices.gpu
    return prices.machine if prices.each_gpu is None else prices.each_gpu * len(gpu_names(device))


def _cost(prices: Prices, summary: Summary, workload: Workload | None) -> Cost:
    rate = hourly(prices, summary.device)
    second = _product(rate, 1 / HOUR_S)
    joule = _product(prices.electricity_per_kwh, 1 / KWH_J)
    return Cost(
        per_hour=rate,
        training=_times(summary.training_s, second, prices.currency),
        electricity=_times(
            summary.energy_j_per_sample, _product(summary.training_samples, joule), prices.currency
        ),
        per_million_samples=_times(_inverse(summary.throughput), _product(second, MILLION), prices.currency),
        **summary.key._asdict(),
    )


def _product(left: float | None, right: float | None) -> float | None:
    return None if left is None or right is None else left * right


def _times(value: Estimate | None, factor: float | None, unit: str) -> Estimate | None:
    if value is None or factor is None:
        return None
    return replace(
        value, median=value.median * factor, low=value.low * factor, high=value.high * factor, unit=unit
    )


def _inverse(value: Estimate) -> Estimate:
    return replace(value, median=1 / value.median, low=1 / value.high, high=1 / value.low)
