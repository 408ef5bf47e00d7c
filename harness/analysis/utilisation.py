"""How busy devices, containers and hosts were while a variant ran."""

from __future__ import annotations

from harness.analysis.align import core_mean
from harness.analysis.case import Case
from harness.model.analysis import GPU_UTILISATION


def device_activity(case: Case, variant: str) -> float | None:
    """Return the share of time in which a kernel was resident on the GPUs, or in which the CPUs were busy.

    For a GPU this is an upper bound of its real utilisation.
    """
    if case.on_gpu:
        values = case.gpu_values(variant, *GPU_UTILISATION)
        return sum(values) / len(values) / 100 if values else None
    used, cpus = cpus_used(case, variant), case.cpus
    return min(1.0, used / cpus) if used is not None and cpus else None


def cpus_used(case: Case, variant: str) -> float | None:
    """Return the CPU time used by the container in a variant, in CPUs."""
    used = case.host(variant, "cgroup", "cpu_usage_s_per_s")
    return case.host(variant, "process", "cpu_usage_s_per_s") if used is None else used


def host_busy(case: Case, variant: str) -> float | None:
    """Return the utilisation of the pinned CPUs, or of all CPUs of the host, from 0 to 1."""
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
