"""One workload on one device: its variants and their telemetry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import median

from harness.analysis.ratios import Spreads
from harness.analysis.trial_measures import Measure, Measures
from harness.intervals import estimate
from harness.model.analysis import Cause, Estimate, Finding, Key, RatioKind, Reading, VariantResult
from harness.model.device import gpu_names, is_gpu, positions
from harness.model.platform import Gpu
from harness.model.run import Run, Trial, VariantInfo
from harness.model.workload import Workload
from workloads.protocol import EPOCH_CALLBACK_PREFIX, FILLING, RECURRENT_PREFIX, VARIABLE_PREFIX
from workloads.variants import BASELINE, CUSTOM_LOOP, INPUT_ONLY, STAGE, Part

_NONE: Mapping[str, float | None] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One workload on one device: what its results are derived from.

    Attributes:
        variants: measured variant -> result over all trials, without what follows from the whole case.
        measures: measured variant -> values of each trial.
        trials: successful trials of this workload and device.
        spreads: what is usual in the run.
    """

    run: Run
    workload: Workload | None
    name: str
    device: str
    variants: Mapping[str, VariantResult]
    measures: Mapping[str, tuple[Measure, ...]]
    trials: tuple[Trial, ...]
    spreads: Spreads

    @property
    def on_gpu(self) -> bool:
        """Whether the device is one or more GPUs."""
        return is_gpu(self.device)

    @property
    def predicts(self) -> bool:
        """Whether the script's call does not train."""
        return self._has_chosen("trains", False)

    @property
    def validates(self) -> bool:
        """Whether the script's call validates after epochs."""
        return self._has_chosen("validates")

    @property
    def has_one_epoch(self) -> bool:
        """Whether the script's call trains one epoch."""
        return any(info.params.get("epochs") == 1 for info in self._chosen)

    @property
    def runs_eagerly(self) -> bool:
        """Whether the script's steps run in Python."""
        return self._has_chosen("run_eagerly")

    @property
    def prefetches(self) -> bool:
        """Whether the script's pipeline ends with a prefetch."""
        return self._has_chosen("prefetches")

    def _has_chosen(self, name: str, choice: bool = True) -> bool:
        """Return whether the script has made this choice, in any trial."""
        return any(info.params.get(name) is choice for info in self._chosen)

    @property
    def _chosen(self) -> Iterator[VariantInfo]:
        """What each trial tells of the script as written."""
        return (info for trial in self.trials for info in trial.variants if info.variant == BASELINE)

    @property
    def gpus(self) -> tuple[str, ...]:
        """The GPUs of the device, as "gpu0"."""
        return gpu_names(self.device)

    @property
    def gpu_models(self) -> tuple[Gpu, ...]:
        """The manifest's records of the GPUs of the device."""
        records = self.run.manifest.gpus
        return tuple(records[position] for position in positions(self.device) if position < len(records))

    def finding(
        self, cause: Cause, share: Estimate | None, *parts: Part, facts: Mapping[str, float | None] = _NONE
    ) -> Finding:
        """Return a finding about this workload and device, with the facts that are known."""
        known = {name: value for name, value in facts.items() if value is not None}
        return Finding(device=self.device, cause=cause, share=share, parts=parts, facts=known)

    def speed(self, variant: str) -> float | None:
        """Return a variant's throughput in samples/s."""
        result = self.variants.get(variant)
        return result.throughput.median if result else None

    def host(self, variant: str, source: str, metric: str) -> float | None:
        """Return a non-GPU metric over a variant's steady state, from the first device that has it."""
        result = self.variants.get(variant)
        values = (
            value
            for reading, value in (result.telemetry if result else {}).items()
            if (reading.source, reading.metric) == (source, metric)
        )
        return next(values, None)

    def gpu_values(self, variant: str, *choices: tuple[str, str]) -> tuple[float, ...]:
        """Return one value per GPU, for the first (source, metric) available on all GPUs of the device."""
        result = self.variants.get(variant)
        for source, metric in choices:
            readings = [Reading(source, gpu, metric) for gpu in self.gpus]
            if result and readings and result.telemetry.keys() >= set(readings):
                return tuple(result.telemetry[reading] for reading in readings)
        return ()

    def gpu_share(self, variant: str, *choices: tuple[str, str]) -> float | None:
        """Return the mean of `gpu_values` in percent as a share; None without any."""
        values = self.gpu_values(variant, *choices)
        return sum(values) / len(values) / 100 if values else None

    def metric(self, variant: str, name: str) -> float | None:
        """Return the median over trials of a metric reported for a variant."""
        values = self.values(variant, name)
        return median(values) if values else None

    def values(self, variant: str, name: str) -> list[float]:
        """Return all values of a metric reported for a variant."""
        return self._metrics(variant, name).get("", [])

    def _metrics(self, variant: str, prefix: str) -> Mapping[str, list[float]]:
        """Return the values of a variant's metrics whose names begin with `prefix`, by what follows it."""
        result: dict[str, list[float]] = {}
        for trial in self.trials:
            for metric in trial.metrics:
                if metric.variant == variant and metric.name.startswith(prefix):
                    result.setdefault(metric.name.removeprefix(prefix), []).append(metric.value)
        return result

    def largest_variable(self) -> tuple[str, float]:
        """Return the path and the number of elements of the baseline's largest trained variable; "" if unknown."""
        found = self._metrics(BASELINE, VARIABLE_PREFIX).items()
        return next(((name, values[0]) for name, values in found), ("", 0.0))

    @property
    def epoch_callbacks_s(self) -> Mapping[str, float]:
        """The callbacks that take time around the baseline's epochs: class -> seconds per step, longest first."""
        found = self._metrics(BASELINE, EPOCH_CALLBACK_PREFIX).items()
        times = {name: median(values) for name, values in found}
        return dict(sorted(times.items(), key=lambda item: -item[1]))

    @property
    def loops_of_kernels(self) -> tuple[str, ...]:
        """Recurrent layers of the baseline that cannot use cuDNN's kernel, as "path: why"."""
        return tuple(self._metrics(BASELINE, RECURRENT_PREFIX))

    @property
    def filling_s(self) -> float:
        """Seconds per step in which the baseline waits for a shuffle buffer to be filled, before each epoch."""
        return self.metric(CUSTOM_LOOP, FILLING) or 0.0

    def between_epochs_s(self, variant: str) -> float:
        """Return the seconds per step of a variant that ends of epochs take."""
        return next((each.between_s for each in self.measures.get(variant, ())), 0.0)

    def function_costs(self) -> Mapping[str, Estimate]:
        """Return the seconds per sample of the functions of a loader written in Python, in the order of their calls."""
        found = self._metrics(INPUT_ONLY, STAGE.of("")).items()
        costs = {name: estimate(values, "s/sample") for name, values in found}
        return {name: each for name, each in costs.items() if each}

    def ratio(self, kind: RatioKind, variant: str) -> Estimate | None:
        """Return a ratio measured for a variant on this device, or None."""
        result = self.variants.get(variant)
        return result.ratios.get(kind) if result else None

    @property
    def cpus(self) -> float | None:
        """Number of CPUs available to the container: visible CPUs, or its quota if lower."""
        pinned = self.run.manifest.pinned
        limits = [float(len(pinned))] if pinned else []
        for trial in self.trials[:1]:
            visible = trial.facts.get("cpus_visible")
            if isinstance(visible, int):
                limits.append(float(visible))
        for variant in self.variants:
            if quota := self.host(variant, "cgroup", "cpu_limit_cpus"):
                limits.append(quota)
        return min(limits, default=None)


def cases(
    run: Run, variants: Mapping[Key, VariantResult], measured: Measures, spreads: Spreads
) -> Iterator[Case]:
    """Yield one case for each workload and device that was measured."""
    declared = {workload.name: workload for workload in run.workloads}
    for name, device in dict.fromkeys((key.workload, key.device) for key in variants):
        own = {key.variant: key for key in variants if (key.workload, key.device) == (name, device)}
        trials = {each.trial.id: each.trial for key in own.values() for each in measured[key]}
        yield Case(
            run=run,
            workload=declared.get(name),
            name=name,
            device=device,
            variants={variant: variants[key] for variant, key in own.items()},
            measures={variant: measured[key] for variant, key in own.items()},
            trials=tuple(trials.values()),
            spreads=spreads,
        )
