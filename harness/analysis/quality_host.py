"""Checks of the machine itself: its load, clocks, GPUs and settings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from harness.analysis.align import increase
from harness.analysis.energy import counter_over_power
from harness.analysis.measures import Measures
from harness.analysis.words import percent, significant
from harness.model.analysis import Quality, Summary
from harness.model.run import Run, Status, Trial
from workloads.protocol import BASELINE

NOTE, WARNING = "note", "warning"
# A load that leaves less than this many of ten CPUs free before the first trial is not a quiet machine.
BUSY_BEFORE = 0.1
# Clocks within a trial, least over median of its steady state.
CLOCK_DROP = 0.10
STEAL_PCT = 1.0
# A GPU's energy counter against the integral of its power.
ENERGY_APART = 0.10


def load(run: Run, found: Measures, summaries: Sequence[Summary]) -> Iterator[Quality]:
    """Warn of a machine that was not quiet: steal while it measured, and load before where no more is known.

    The load of the last minute still holds what this program itself did before: where telemetry tells what
    others used while it measured, the rule contended-host judges by that.
    """
    facts = run.manifest.host_facts
    load_1min, cpus = facts.get("load_1min"), facts.get("cpus")
    seen = any("host.host.cpu_util_pct" in summary.telemetry for summary in summaries)
    if not seen and isinstance(load_1min, float) and isinstance(cpus, int) and load_1min > BUSY_BEFORE * cpus:
        yield Quality(
            severity=WARNING if load_1min > 0.5 * cpus else NOTE,
            subject="host",
            fact=f"The machine was not quiet before the run: load {significant(load_1min)} on {cpus} "
            f"processors.",
            remedy="Stop other programs and run it again.",
        )
    steal = _worst(summaries, "cpu_steal_pct")
    if steal > STEAL_PCT:
        yield Quality(
            severity=WARNING,
            subject="host",
            fact=f"The hypervisor gave up to {percent(steal / 100)} of the CPUs' time to other "
            f"guests (steal).",
            remedy="Use an instance with dedicated CPUs, or repeat the run at another time of day.",
        )


def energy(run: Run, found: Measures, summaries: Sequence[Summary]) -> Iterator[Quality]:
    """Say where a GPU's energy counter and its power readings disagree."""
    worst: dict[str, float] = {}
    for trial in run.trials:
        if trial.status is Status.OK:
            for card, factor in counter_over_power(trial).items():
                worst[card] = max(worst.get(card, 1.0), factor, key=lambda each: abs(each - 1))
    for card, factor in worst.items():
        if abs(factor - 1) > ENERGY_APART:
            yield Quality(
                severity=NOTE,
                subject=card,
                fact=f"Its energy counter grew by {percent(abs(factor - 1))} "
                f"{'more' if factor > 1 else 'less'} than its power readings add up to. Joules follow the "
                f"counter; how they divide between variants follows power.",
                remedy="Compare energy between runs on this GPU only, or hold it against a power meter.",
            )


def foreign(run: Run, found: Measures, summaries: Sequence[Summary]) -> Iterator[Quality]:
    """Warn of other processes on the GPUs, driver errors and uncorrected memory errors."""
    for trial in run.trials:
        for series in trial.telemetry:
            for metric, fact, remedy in _CARD_FACTS:
                values = series.columns.get(metric)
                seen = float(np.nanmax(values)) if values is not None and np.isfinite(values).any() else 0.0
                if metric != "foreign_processes" and values is not None and seen:
                    seen -= float(values[np.isfinite(values)][0])
                if seen > 0:
                    yield Quality(severity=WARNING, subject=series.device, fact=fact, remedy=remedy)


_CARD_FACTS = (
    (
        "foreign_processes",
        "Processes that are not part of this run used the GPU.",
        "List them with nvidia-smi and stop them, then run it again.",
    ),
    (
        "xid_errors",
        "The driver reported critical errors (XID) of the GPU during a trial.",
        "Look for NVRM in the kernel's log; the GPU or its link may be faulty.",
    ),
    (
        "ecc_uncorrected",
        "The GPU's memory had errors that could not be corrected.",
        "Reset the GPU and test it before trusting any figure of it.",
    ),
)


def cards(run: Run, found: Measures, summaries: Sequence[Summary]) -> Iterator[Quality]:
    """Say what about a GPU's settings makes its figures differ from another's of the same name."""
    for position, gpu in enumerate(run.manifest.gpus):
        subject = f"gpu{position} ({gpu.name})"
        limit, default = gpu.power_limit_w, gpu.power_default_limit_w
        if limit is not None and default is not None and limit < default:
            yield Quality(
                severity=WARNING,
                subject=subject,
                fact=f"Its power limit is {significant(limit)} W, below the default of "
                f"{significant(default)} W.",
                remedy=f"Restore it with: nvidia-smi -i {gpu.index} -pl {default:.0f}",
            )
        if gpu.mig_enabled:
            yield Quality(
                severity=NOTE,
                subject=subject,
                fact="It is split into MIG instances: the figures are those of one instance, and what "
                "NVML does "
                "not tell of instances is shown as not available.",
                remedy="Compare with instances of the same profile only.",
            )
        if gpu.ecc_enabled is False:
            yield Quality(
                severity=NOTE,
                subject=subject,
                fact="Error correction (ECC) of its memory is off, which frees bandwidth and memory.",
                remedy="Compare with GPUs in the same state, or turn it on with nvidia-smi -e 1.",
            )


def clocks(run: Run, found: Measures, summaries: Sequence[Summary]) -> Iterator[Quality]:
    """Warn of clocks that were not steady, or not what the CPU can do."""
    facts = run.manifest.host_facts
    governor = facts.get("cpu_governor")
    if isinstance(governor, str) and governor != "performance":
        yield Quality(
            severity=NOTE,
            subject="host",
            fact=f'The CPUs\' frequency governor is "{governor}", not "performance".',
            remedy="cpupower frequency-set -g performance",
        )
    for trial in run.trials:
        drop = _clock_drop(trial) if trial.status is Status.OK else 0.0
        if drop > CLOCK_DROP:
            yield Quality(
                severity=NOTE,
                subject=f"{trial.workload} on {trial.device}",
                fact="The CPUs' clock fell by more than a tenth within a trial's steady state.",
                remedy="Look at the clock in the report's timeline; heat, power limits or turbo budgets "
                "do this.",
            )
        if any(not trial.started_ns <= one.start_ns <= one.end_ns <= trial.ended_ns for one in trial.windows):
            yield Quality(
                severity=WARNING,
                subject=f"{trial.workload} on {trial.device}",
                fact="The container's clock is not the host's: phases and telemetry do not line up.",
                remedy="Run the containers on the host itself, not in a virtual machine of their own.",
            )
    if any(_cores_throttled(trial) for trial in run.trials if trial.status is Status.OK):
        yield Quality(
            severity=WARNING,
            subject="host",
            fact="CPU cores throttled by heat while being measured.",
            remedy="Improve the cooling, or let the machine cool down between runs.",
        )


HOST_CHECKS = (load, foreign, energy, cards, clocks)


def _worst(summaries: Sequence[Summary], metric: str) -> float:
    found = (
        value
        for one in summaries
        if one.variant == BASELINE
        for key, value in one.telemetry.items()
        if key.endswith(f".{metric}")
    )
    return max(found, default=0.0)


def _cores_throttled(trial: Trial) -> bool:
    series = next((one for one in trial.telemetry if "cpu_throttle_events" in one.columns), None)
    if series is None or not trial.windows:
        return False
    ends = max(window.end_ns for window in trial.windows)
    whole = replace(min(trial.windows, key=lambda window: window.start_ns), end_ns=ends)
    return bool(increase(series.t_ns, series.columns["cpu_throttle_events"], (whole,))[0] > 0)


def _clock_drop(trial: Trial) -> float:
    """Return how far the CPUs' clock fell from baseline's first window, window means compared."""
    series = next((one for one in trial.telemetry if "cpu_freq_mhz" in one.columns), None)
    if series is None:
        return 0.0
    values = series.columns["cpu_freq_mhz"]
    means = []
    for window in trial.windows:
        if window.variant == BASELINE:
            first, last = np.searchsorted(series.t_ns, (window.start_ns, window.end_ns))
            inside = values[first:last]
            if np.isfinite(inside).any():
                means.append(float(np.nanmean(inside)))
    return 1 - min(means) / means[0] if means and means[0] > 0 else 0.0
