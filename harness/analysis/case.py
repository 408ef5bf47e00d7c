"""All that a rule may look at for one workload on one device, and the verdict it gives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from harness.analysis.align import PER_CORE, core_mean, gpu_names
from harness.analysis.compare import CPU, GPU_OVER_CPU, TUNED_OVER_BASELINE
from harness.cpuset import cpu_numbers
from harness.model.analysis import Comparison, Estimate, Evidence, Finding, Remedy, Summary, Verdict
from harness.model.run import Run, Status
from workloads.protocol import BASELINE, TUNED, Workload

# USE method (Gregg, 2013): what is not saturated makes nobody wait; by xprof's 15 %, as for a busy device.
FREE = 0.15


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One workload on one device.

    Attributes:
        variants: variant -> its summary, for the variants that were measured.
        ratios: the comparisons of this workload.
    """

    run: Run
    workload: Workload | None
    name: str
    device: str
    variants: Mapping[str, Summary]
    ratios: tuple[Comparison, ...]

    @property
    def on_gpu(self) -> bool:
        """Whether the device is one or more GPUs."""
        return self.device != CPU

    def speed(self, variant: str) -> float | None:
        """Return a variant's samples/s."""
        summary = self.variants.get(variant)
        return summary.throughput.median if summary else None

    def host(self, variant: str, source: str, metric: str) -> float | None:
        """Return a metric that is not a GPU's over a variant's steady state; the first device that has it."""
        summary = self.variants.get(variant)
        found = (
            value
            for key, value in (summary.telemetry if summary else {}).items()
            if key.startswith(f"{source}.") and key.endswith(f".{metric}")
        )
        return next(found, None)

    def core(self, variant: str, metric: str) -> float | None:
        """Return a CPU's own metric over a variant's steady state, the median of its trials."""
        values = [
            value
            for trial in self.run.trials
            if trial.workload == self.name and trial.device == self.device
            if (value := core_mean(trial, variant, metric)) is not None
        ]
        return median(values) if values else None

    def cards(self, variant: str, *choices: tuple[str, str]) -> tuple[float, ...]:
        """Return one value a GPU, of the first (source, metric) that every GPU of the device has."""
        summary = self.variants.get(variant)
        names = gpu_names(self.device)
        for source, metric in choices:
            keys = [f"{source}.{name}.{metric}" for name in names]
            if summary and keys and all(key in summary.telemetry for key in keys):
                return tuple(summary.telemetry[key] for key in keys)
        return ()

    def ratio(self, kind: str, variant: str) -> Estimate | None:
        """Return a comparison whose numerator is this device's variant."""
        wanted = f"{self.device}/{variant}"
        return next((one.ratio for one in self.ratios if one.kind == kind and one.numerator == wanted), None)

    @property
    def over_cpu(self) -> Estimate | None:
        """Baseline, this device over the CPU."""
        return self.ratio(GPU_OVER_CPU, BASELINE)

    @property
    def tuned_gain(self) -> Estimate | None:
        """Tuned over baseline on this device."""
        return self.ratio(TUNED_OVER_BASELINE, TUNED)

    @property
    def cpus(self) -> float | None:
        """How many CPUs the container could use: those visible to it, or its quota if less."""
        visible = [
            float(value)
            for trial in self.run.trials
            if trial.workload == self.name and trial.device == self.device and trial.status is Status.OK
            and isinstance(value := trial.facts.get("cpus_visible"), int)
        ]  # fmt: skip
        quota = self.host(BASELINE, "cgroup", "cpu_limit_cpus")
        pinned = self.pinned
        limits = [*visible[:1], *([quota] if quota else []), *([float(len(pinned))] if pinned else [])]
        return min(limits, default=None)

    @property
    def pinned(self) -> tuple[int, ...]:
        """The CPUs that --cpus named; empty when all may be used."""
        options = self.run.manifest.parameters.get("options")
        return cpu_numbers(str(options.get("cpus") or "")) if isinstance(options, Mapping) else ()

    def too_short(self, source: str) -> bool:
        """Tell whether a source was read, but not often enough to speak of baseline's windows alone."""
        summary = self.variants.get(BASELINE)
        known = summary.telemetry if summary else {}
        return any(
            f"{source}.{one.device}.{name}" not in known
            and f"{source}.{one.device}.{name}_per_s" not in known
            for trial in self.run.trials
            if trial.workload == self.name and trial.device == self.device
            for one in trial.telemetry
            if one.source == source and one.device != PER_CORE and len(one.t_ns) >= 2
            for name in one.columns
        )

    def verdict(
        self,
        rule: str,
        finding: Finding,
        sentence: str,
        *,
        cause: str = "",
        evidence: Sequence[Evidence] = (),
        cost: float | None = None,
        remedy: Remedy | None = None,
    ) -> Verdict:
        """Return a verdict on this workload and device."""
        return Verdict(
            workload=self.name,
            device=self.device,
            rule=rule,
            finding=finding,
            cause=cause,
            sentence=sentence,
            evidence=tuple(evidence),
            cost=cost,
            remedy=remedy,
        )


def cases(run: Run, summaries: Sequence[Summary], ratios: Sequence[Comparison]) -> Iterator[Case]:
    """Yield one case for each workload and device that has a summary."""
    declared = {workload.name: workload for workload in run.workloads}
    groups: dict[tuple[str, str], dict[str, Summary]] = {}
    for one in summaries:
        groups.setdefault((one.workload, one.device), {})[one.variant] = one
    for (name, device), variants in groups.items():
        yield Case(
            run=run,
            workload=declared.get(name),
            name=name,
            device=device,
            variants=variants,
            ratios=tuple(one for one in ratios if one.workload == name),
        )


def activity(case: Case, variant: str) -> tuple[float, str] | None:
    """Return the share of time in which the device did something, and which metric says so.

    On a GPU: some kernel was resident (an upper bound of how busy it was). On the CPU: CPU time
    over the CPUs that the container could use.
    """
    if case.on_gpu:
        for source, metric in (
            ("gpm", "graphics_util_pct"),
            ("nvml_util", "gpu_util_pct"),
            ("nvml", "gpu_util_pct"),
        ):
            values = case.cards(variant, (source, metric))
            if values:
                return sum(values) / len(values) / 100, metric
        return None
    used, cpus = cpus_used(case, variant), case.cpus
    return (min(1.0, used / cpus), "cpu_usage_s") if used is not None and cpus else None


def cpus_used(case: Case, variant: str) -> float | None:
    """Return the CPUs' worth of time that the container used in a variant."""
    for source in ("cgroup", "process"):
        used = case.host(variant, source, "cpu_usage_s_per_s")
        if used is not None:
            return used
    return None


def host_idle(case: Case, variant: str) -> float | None:
    """Return the share of the time in which CPUs that the container could use did nothing at all."""
    busy, total, cpus = host_busy(case, variant), case.run.manifest.host_facts.get("cpus"), case.cpus
    if busy is None or not cpus:
        return None
    if case.pinned or not isinstance(total, int):
        return 1.0 - busy
    return min(1.0, (1.0 - busy) * total / cpus)


def host_busy(case: Case, variant: str) -> float | None:
    """Return how busy the CPUs were, between 0 and 1: those it is pinned to, or all of the host."""
    if case.pinned:
        names = [f"core{number}_util_pct" for number in case.pinned]
        cores = [value for name in names if (value := case.core(variant, name)) is not None]
        if cores:
            return sum(cores) / len(cores) / 100
    busy = case.host(variant, "host", "cpu_util_pct")
    return None if busy is None or case.pinned else busy / 100
