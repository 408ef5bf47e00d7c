"""Summarise measures as medians over trials, with everything before steady state kept separate."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from harness.analysis.energy_and_cost import energy_per_sample
from harness.analysis.stats import estimate
from harness.analysis.trial_measures import Measure, Measures, steady_means
from harness.analysis.trust import learned, required_accuracy
from harness.model.analysis import Key, Reading, Summary
from harness.model.device import CPU
from harness.model.run import Run, Status, VariantInfo
from harness.model.workload import Workload
from workloads.protocol import (
    ACCURACY,
    DEVICE_MEMORY,
    EVALUATE,
    HOST_MEMORY,
    SAMPLES_TRAINED,
    STEADY,
    measures_speed,
)

QUANTILES = (("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("max", 100.0))
# Name of the metric with the time of a complete training.
TRAINING_TIME = "training_s"


def summaries(run: Run, measured: Measures) -> tuple[Summary, ...]:
    """Return one summary for each workload, device and variant with at least one successful trial."""
    declared = {workload.name: workload for workload in run.workloads}
    trials = {measure.trial.id: measure.trial for group in measured.values() for measure in group}
    means = {trial_id: steady_means(trial) for trial_id, trial in trials.items()}
    return tuple(
        _summary(
            run,
            key,
            group,
            declared.get(key.workload),
            [means[measure.trial.id].get(measure.variant, {}) for measure in group],
        )
        for key, group in measured.items()
    )


def _summary(
    run: Run,
    key: Key,
    group: Sequence[Measure],
    workload: Workload | None,
    means: Sequence[Mapping[Reading, float]],
) -> Summary:
    throughput = estimate([each.throughput for each in group], "samples/s")
    step_time = estimate([each.step_s for each in group], "s")
    assert throughput is not None and step_time is not None  # a group has at least one measure
    info = _info(group)
    waits = [each.wait_share for each in group if each.wait_share is not None]
    energy, energy_source = energy_per_sample(group, means)
    accuracy, trained_samples = (_median(_metric_values(group, name)) for name in (ACCURACY, SAMPLES_TRAINED))
    # A training of other epochs than the published ones says nothing about their time.
    changed = any(name.casefold() == "epochs" for name in run.manifest.options.params)
    trained = [] if changed else _metric_values(group, TRAINING_TIME)
    samples = _trained_samples(info, workload)
    projected = (
        [samples / each.throughput for each in group] if samples and not trained and not changed else []
    )
    return Summary(
        throughput=throughput,
        step_time=step_time,
        batch_size=_batch_size(info, group[0]),
        step_quantiles=_quantiles(group),
        wait_share=_median(waits),
        training_s=estimate(trained or projected, "s"),
        training_projected=bool(projected),
        training_samples=samples,
        cold_start=_cold_start(run, group[0]),
        telemetry=_medians(means),
        memory_bytes=_median(_metric_values(group, HOST_MEMORY if key.device == CPU else DEVICE_MEMORY)),
        energy_j_per_sample=energy,
        energy_source=energy_source,
        accuracy=accuracy,
        accuracy_samples=trained_samples,
        accuracy_ok=learned(accuracy, required_accuracy(run, workload), _epochs(trained_samples, info)),
        changes=info.changes if info else (),
        trial_ids=tuple(each.trial.id for each in group),
        trial_throughputs=tuple(each.throughput for each in group),
        **key._asdict(),
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


def _cold_start(run: Run, measure: Measure) -> tuple[tuple[str, float], ...]:
    """Return the phases of the first trial with the variant: later ones find what XLA compiled."""
    wanted = (measure.trial.workload, measure.trial.device)
    alike = (
        each for each in run.trials if (each.workload, each.device) == wanted and each.status is Status.OK
    )
    first = min(alike, key=lambda each: each.index)
    seconds: defaultdict[str, float] = defaultdict(float)
    for phase in sorted(first.phases, key=lambda phase: phase.start_ns):
        if phase.variant in ("", measure.variant) and phase.name not in (STEADY, EVALUATE):
            seconds[phase.name] += (phase.end_ns - phase.start_ns) / 1e9
    return tuple(seconds.items())


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
    declared = info.params.get("batch_size") if info and measures_speed(info.variant) else None
    return declared if isinstance(declared, int) else measure.batch
