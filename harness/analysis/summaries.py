"""Summarise measures as medians over trials, with their energy, and the costs that follow from prices.

Everything before steady state is kept separate. Energy is mean power over a variant's windows.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from harness.analysis.ratios import Spreads, speed_ratios
from harness.analysis.requests import capacities, latencies, request_ratios
from harness.analysis.telemetry_means import steady_means
from harness.analysis.trial_measures import Measure, Measures, by_trial, units
from harness.analysis.trust import learned, required_accuracy
from harness.intervals import Spread, estimate
from harness.model.analysis import CaseResult, Cost, Estimate, Key, Reading, VariantResult
from harness.model.device import CPU, gpu_names
from harness.model.metrics import GPU_POWER
from harness.model.run import Prices, Run, VariantInfo
from harness.model.workload import Workload
from workloads.protocol import ACCURACY, DEVICE_MEMORY, HOST_MEMORY, SAMPLES_TRAINED, STEADY
from workloads.variants import BASELINE, FIX, TUNED, measures_speed

QUANTILES = (("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("max", 100.0))
CPU_COUNTER = "CPU package energy counter (RAPL), all that runs on the package"


def variant_results(run: Run, measured: Measures, spreads: Spreads) -> Mapping[Key, VariantResult]:
    """Return the result of each workload, device and variant with at least one successful trial.

    What follows from a whole case, such as its breakdown, is not in it yet.
    """
    declared = {workload.name: workload for workload in run.workloads}
    trials = {measure.trial.id: measure.trial for group in measured.values() for measure in group}
    means = {trial_id: steady_means(trial) for trial_id, trial in trials.items()}
    ratios, of_requests = speed_ratios(measured, spreads), request_ratios(run)
    requests, served = latencies(run), capacities(run)
    return {
        key: replace(
            _summary(
                run,
                key,
                group,
                declared.get(key.workload),
                [means[measure.trial.id].get(measure.variant, {}) for measure in group],
                spreads.of(key.device, key.variant),
            ),
            ratios={**ratios.get(key, {}), **of_requests.get(key, {})},
            latencies=requests.get(key, ()),
            capacities=served.get(key, ()),
        )
        for key, group in measured.items()
    }


def _summary(
    run: Run,
    key: Key,
    group: Sequence[Measure],
    workload: Workload | None,
    means: Sequence[Mapping[Reading, float]],
    usual: Spread,
) -> VariantResult:
    throughput = estimate(units(group), "samples/s", usual)
    assert throughput is not None  # a group has at least one measure
    batch = float(np.median([each.step_s * each.throughput for each in group]))
    step_time = throughput.map(lambda speed: batch / speed, "s")
    info = _info(group)
    waits = [each.wait_share for each in group if each.wait_share is not None]
    energy, energy_source = energy_per_sample(group, means)
    accuracy, trained_samples = (_median(_metric_values(group, name)) for name in (ACCURACY, SAMPLES_TRAINED))
    # A training of other epochs than the published ones says nothing about their time.
    changed = any(name.casefold() == "epochs" for name in run.manifest.options.params)
    # Name of the metric with the time of a complete training.
    trained = [] if changed else _metric_values(group, "training_s")
    samples = _trained_samples(info, workload)
    projected = (
        [samples / each.throughput for each in group] if samples and not trained and not changed else []
    )
    return VariantResult(
        throughput=throughput,
        step_time=step_time,
        batch_size=_batch_size(info, group[0]),
        step_quantiles=_quantiles(group),
        wait_share=_median(waits),
        training_s=estimate(trained or projected, "s"),
        training_projected=bool(projected),
        training_samples=samples,
        cold_start=_cold_start(group),
        telemetry=_medians(means),
        memory_bytes=_median(_metric_values(group, HOST_MEMORY if key.device == CPU else DEVICE_MEMORY)),
        energy_j_per_sample=energy,
        energy_source=energy_source,
        accuracy=accuracy,
        accuracy_samples=trained_samples,
        accuracy_ok=learned(accuracy, required_accuracy(run, workload), _epochs(trained_samples, info)),
        changes=info.changes if info else (),
        trial_ids=tuple(dict.fromkeys(each.trial.id for each in group)),
        trial_throughputs=tuple(by_trial(group).values()),
        readings=len(group),
    )


def _trained_samples(info: VariantInfo | None, workload: Workload | None) -> int | None:
    """Return the samples of all epochs that the script trains; None if it does not train, or they are unknown."""
    if info is None or not measures_speed(info.variant) or workload is None or workload.requests is not None:
        return None
    return _count(info, "epochs") * _count(info, "samples_per_epoch") or None


def _count(info: VariantInfo | None, name: str) -> int:
    """Return a number that the script's call had; 0 if it is unknown or none."""
    value = info.params.get(name) if info else None
    return int(value) if isinstance(value, (int, float)) and math.isfinite(value) else 0


def _metric_values(group: Sequence[Measure], name: str) -> list[float]:
    return [
        metric.value for each in group for metric in each.trial.metrics
        if metric.variant == each.variant and metric.name == name
    ]  # fmt: skip


def _epochs(samples: float | None, info: VariantInfo | None) -> float | None:
    """Return the number of epochs trained before accuracy was measured."""
    whole = _count(info, "samples_per_epoch")
    return samples / whole if samples is not None and whole else None


def _quantiles(group: Sequence[Measure]) -> dict[str, float]:
    parts = [times.step_ns for each in group for times in each.trial.steps if times.variant == each.variant]
    parts = [part for part in parts if len(part)]
    if not parts:
        return {}
    values = np.percentile(np.concatenate(parts), [share for _, share in QUANTILES]) / 1e9
    return {name: float(value) for (name, _), value in zip(QUANTILES, values, strict=True)}


def _cold_start(group: Sequence[Measure]) -> tuple[tuple[str, float], ...]:
    """Return the seconds of each phase before the first window; later readings find compiled kernels in caches."""
    variant, phases = group[0].variant, sorted(group[0].trial.phases, key=lambda phase: phase.start_ns)
    result: dict[str, float] = {}
    for phase in phases:
        if phase.variant == variant and phase.name == STEADY:
            break
        if phase.variant in ("", variant):
            result[phase.name] = result.get(phase.name, 0.0) + (phase.end_ns - phase.start_ns) / 1e9
    return tuple(result.items())


def _medians(trials: Sequence[Mapping[Reading, float]]) -> dict[Reading, float]:
    values: defaultdict[Reading, list[float]] = defaultdict(list)
    for means in trials:
        for reading, value in means.items():
            values[reading].append(value)
    return {reading: float(np.median(found)) for reading, found in values.items()}


def _median(values: Sequence[float]) -> float | None:
    return float(np.median(values)) if values else None


def _info(group: Sequence[Measure]) -> VariantInfo | None:
    variants = (info for each in group for info in each.trial.variants if info.variant == each.variant)
    return next(variants, None)


def _batch_size(info: VariantInfo | None, measure: Measure) -> int:
    """Return the batch size of all devices; for variants of the breakdown, the mean samples per step.

    The mean of a variant that trains depends on how many short batches its windows include.
    """
    own = info and (measures_speed(info.variant) or FIX.has(info.variant))
    declared = info.params.get("batch_size") if info and own else None
    return declared if isinstance(declared, int) else measure.batch


def energy_per_sample(
    group: Sequence[Measure], means: Sequence[Mapping[Reading, float]]
) -> tuple[Estimate | None, str]:
    """Return joules per sample, summed over all GPUs of the device, and their source."""
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
    if not gpus:
        packages = dict.fromkeys(each for telemetry in means for each in telemetry if _is_package(each))
        yield list(packages), CPU_COUNTER
        return
    for source, metric in GPU_POWER:
        label = "instant GPU power" if "instant" in metric else "GPU power"
        yield [Reading(source, gpu, metric) for gpu in gpus], label


def _is_package(reading: Reading) -> bool:
    """Return whether this is the energy of a RAPL package or its DRAM; other zones overlap with these."""
    zone = reading.device
    return (
        (reading.source, reading.metric) == ("rapl", "energy_j_per_s")
        and zone.startswith("package")
        and "_" not in zone.removesuffix("_dram")
    )


def with_costs(case: CaseResult, prices: Prices | None) -> CaseResult:
    """Return a case with the costs of baseline and tuned; without any if there are no prices."""
    variants = {
        name: replace(
            each, cost=_cost(prices, case.device, each) if prices and name in (BASELINE, TUNED) else None
        )
        for name, each in case.variants.items()
    }
    return replace(case, variants=variants)


def hourly(prices: Prices | None, device: str) -> float | None:
    """Return the hourly price of using `device`; a price for its kind takes precedence."""
    if prices is None:
        return None
    if device == CPU:
        return prices.machine if prices.cpu is None else prices.cpu
    if prices.gpu is not None:
        return prices.gpu
    return prices.machine if prices.each_gpu is None else prices.each_gpu * len(gpu_names(device))


def _cost(prices: Prices, device: str, result: VariantResult) -> Cost:
    rate, samples, electricity = hourly(prices, device), result.training_samples, prices.electricity_per_kwh
    sample_s = result.throughput.map(lambda speed: 1 / speed, "s")
    joules = None if samples is None else _times(result.energy_j_per_sample, samples, "J")
    second = None if rate is None else rate / 3600
    return Cost(
        per_hour=rate,
        training=_times(result.training_s, second, prices.currency),
        electricity=_times(joules, None if electricity is None else electricity / 3.6e6, prices.currency),
        per_million_samples=_times(sample_s, None if second is None else second * 1e6, prices.currency),
    )


def _times(value: Estimate | None, factor: float | None, unit: str) -> Estimate | None:
    return None if value is None or factor is None else value.map(lambda each: each * factor, unit)
