"""One workload on one device: its variants, and lookups in their telemetry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from harness.analysis.align import core_mean, gpu_names
from harness.analysis.measures import Measure, Measures
from harness.cpuset import cpu_numbers
from harness.model.analysis import Comparison, Estimate, RatioKind, Summary
from harness.model.run import CPU, Run, Trial
from workloads.protocol import Workload

# USE method (Gregg, 2013): what is not saturated makes nobody wait; by xprof's 15 %, as for a busy device.
SATURATED_FREE = 0.15


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One workload on one device.

    Attributes:
        variants, measures: by variant, for those that were measured: over all trials, and one for each.
        ratios: the comparisons of this workload.
        trials: those of this workload and device that ended well.
    """

    run: Run
    workload: Workload | None
    name: str
    device: str
    variants: Mapping[str, Summary]
    measures: Mapping[str, tuple[Measure, ...]]
    ratios: tuple[Comparison, ...]
    trials: tuple[Trial, ...]

    @property
    def on_gpu(self) -> bool:
        """Whether the device is one or more GPUs."""
        return self.device != CPU

    @property
    def gpus(self) -> tuple[str, ...]:
        """The GPUs of the device, as "gpu0"."""
        return gpu_names(self.device)

    def speed(self, variant: str) -> float | None:
        """Return a variant's samples/s."""
        summary = self.variants.get(variant)
        return summary.throughput.median if summary else None

    def host(self, variant: str, source: str, metric: str) -> float | None:
        """Return a metric that is not a GPU's over a variant's steady state; the first device that has it."""
        summary = self.variants.get(variant)
        values = (
            value
            for key, value in (summary.telemetry if summary else {}).items()
            if key.startswith(f"{source}.") and key.endswith(f".{metric}")
        )
        return next(values, None)

    def gpu_values(self, variant: str, *choices: tuple[str, str]) -> tuple[float, ...]:
        """Return one value a GPU, of the first (source, metric) that every GPU of the device has."""
        summary = self.variants.get(variant)
        for source, metric in choices:
            keys = [f"{source}.{name}.{metric}" for name in self.gpus]
            if summary and keys and all(key in summary.telemetry for key in keys):
                return tuple(summary.telemetry[key] for key in keys)
        return ()

    def gpu_mean(self, variant: str, source: str, metric: str) -> float | None:
        """Return a metric's mean over the GPUs of the device."""
        values = self.gpu_values(variant, (source, metric))
        return sum(values) / len(values) if values else None

    def metric(self, variant: str, name: str) -> float | None:
        """Return the median over trials of a figure that the driver reported of a variant."""
        values = [
            metric.value
            for trial in self.trials
            for metric in trial.metrics
            if (metric.variant, metric.name) == (variant, name)
        ]
        return median(values) if values else None

    def ratio(self, kind: RatioKind, variant: str) -> Estimate | None:
        """Return what a comparison of a variant on this device comes to."""
        wanted = (kind, self.device, variant)
        result = (each.ratio for each in self.ratios if (each.kind, each.device, each.variant) == wanted)
        return next(result, None)

    @property
    def pinned(self) -> tuple[int, ...]:
        """The CPUs that --cpus named; empty when all may be used."""
        return cpu_numbers(self.run.manifest.options.cpus)

    @property
    def host_cpus(self) -> int | None:
        """How many CPUs the host's telemetry is about: those it is pinned to, or all."""
        cpus = self.run.manifest.host_facts.get("cpus")
        return len(self.pinned) or (cpus if isinstance(cpus, int) else None)

    @property
    def cpus(self) -> float | None:
        """How many CPUs the container could use: those visible to it, or its quota if less."""
        limits = [float(len(self.pinned))] if self.pinned else []
        for trial in self.trials[:1]:
            visible = trial.facts.get("cpus_visible")
            limits += [float(visible)] if isinstance(visible, int) else []
        for variant in self.variants:
            quota = self.host(variant, "cgroup", "cpu_limit_cpus")
            limits += [quota] if quota else []
        return min(limits, default=None)


def cases(
    run: Run, summaries: Sequence[Summary], ratios: Sequence[Comparison], measured: Measures
) -> Iterator[Case]:
    """Yield one case for each workload and device that has a summary."""
    declared = {workload.name: workload for workload in run.workloads}
    groups: dict[tuple[str, str], dict[str, Summary]] = {}
    for summary in summaries:
        groups.setdefault((summary.workload, summary.device), {})[summary.variant] = summary
    for (name, device), variants in groups.items():
        own_measures = {
            key.variant: group
            for key, group in measured.items()
            if (key.workload, key.device) == (name, device)
        }
        trials = {each.trial.id: each.trial for group in own_measures.values() for each in group}
        yield Case(
            run=run,
            workload=declared.get(name),
            name=name,
            device=device,
            variants=variants,
            measures=own_measures,
            ratios=tuple(each for each in ratios if each.workload == name),
            trials=tuple(trials.values()),
        )


def device_activity(case: Case, variant: str) -> float | None:
    """Return the share of time in which some kernel was resident on the GPUs, or the CPUs in use were busy.

    For a GPU an upper bound of how busy it was.
    """
    if case.on_gpu:
        choices = (("gpm", "graphics_util_pct"), ("nvml_util", "gpu_util_pct"), ("nvml", "gpu_util_pct"))
        values = case.gpu_values(variant, *choices)
        return sum(values) / len(values) / 100 if values else None
    used, cpus = cpus_used(case, variant), case.cpus
    return min(1.0, used / cpus) if used is not None and cpus else None


def cpus_used(case: Case, variant: str) -> float | None:
    """Return the CPUs' worth of time that the container used in a variant."""
    used = case.host(variant, "cgroup", "cpu_usage_s_per_s")
    return case.host(variant, "process", "cpu_usage_s_per_s") if used is None else used


def free_cpus(case: Case, variant: str) -> float | None:
    """Return the share of the CPUs that the container may use which nobody used, where few are free.

    None where more than SATURATED_FREE is free, or nothing tells: what others did then mattered to nobody.
    """
    busy, total, cpus = host_busy(case, variant), case.host_cpus, case.cpus
    if busy is None or not cpus or not total:
        return None
    free = 1.0 - busy if case.pinned else min(1.0, (1.0 - busy) * total / cpus)
    return free if free < SATURATED_FREE else None


def host_busy(case: Case, variant: str) -> float | None:
    """Return how busy the CPUs were, between 0 and 1: those it is pinned to, or all of the host."""
    if case.pinned:
        names = [f"core{number}_util_pct" for number in case.pinned]
        cores = [
            value
            for trial in case.trials
            for name in names
            if (value := core_mean(trial, variant, name)) is not None
        ]
        return sum(cores) / len(cores) / 100 if cores else None
    busy = case.host(variant, "host", "cpu_util_pct")
    return None if busy is None else busy / 100
