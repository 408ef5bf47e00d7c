"""Whether numbers can be trusted: models that do not learn, impossible measurements, caveats of a run."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from harness.analysis.case import Case
from harness.analysis.disturbance import Disturbed, uncounted
from harness.analysis.trial_measures import slow_trials
from harness.analysis.utilisation import host_shares
from harness.model.analysis import CaseResult, Cause, Caveat, CaveatKind, Estimate, Finding, StepTime
from harness.model.run import MAX_SAMPLES_PER_S, Run
from harness.model.workload import Workload
from workloads.protocol import BATCH_BYTES, TOLERANCE
from workloads.variants import BASELINE, CALLS, CUSTOM_LOOP, HOST_FED, MODEL_ONLY, TUNED, Part

# Standard errors above the accuracy of guessing; exceeded by chance in 3e-7 of cases.
_SIGMAS = 5.0


def required_accuracy(run: Run, workload: Workload | None) -> float | None:
    """Return the minimum accuracy on held-out data that shows learning; None if the workload needs none.

    On procedural data this is declared by the workload. On real data, where a short measurement trains for
    only a few seconds, it is the chance level plus five standard errors of a binomial proportion.
    """
    if workload is None or workload.min_accuracy <= 0 or workload.requests is not None:
        return None
    kinds = {data.kind for data in run.manifest.data if data.workload == workload.name}
    data = next(iter(workload.datasets), None)
    # A damaged plan may have none, or sizes that are none.
    if kinds != {"real"} or data is None or min(data.classes, data.test) < 1:
        return workload.min_accuracy
    chance = 1.0 / data.classes
    return chance + _SIGMAS * math.sqrt(chance * (1.0 - chance) / data.test)


def learned(accuracy: float | None, needed: float | None, epochs: float | None) -> bool | None:
    """Return whether training worked; None if unknown.

    Training for less than one epoch can show that training works, but not that it fails.
    """
    if accuracy is None or needed is None:
        return None
    if accuracy >= needed:
        return True
    return None if epochs is None or epochs < 1 else False


def not_learning(case: Case) -> Iterator[Finding]:
    """Yield a finding if baseline or tuned did not learn, for the worse of the two."""
    needed = required_accuracy(case.run, case.workload)
    failed = [
        (summary.accuracy, variant)
        for variant in (BASELINE, TUNED)
        if (summary := case.variants.get(variant))
        and summary.accuracy_ok is False
        and summary.accuracy is not None
    ]
    if needed is not None and failed:
        accuracy, variant = min(failed)
        facts = {"accuracy": accuracy, "needed": needed, "tuned": float(variant == TUNED)}
        yield case.finding(Cause.NOT_LEARNING, None, facts=facts)


# PCIe generation -> bytes/s of one lane in one direction after encoding (PCI-SIG base specification).
PCIE_LANE_BYTES_PER_S = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
# One process can be off by more: a measurement is impossible if so many of both sides say so.
MIN_READINGS = 2

# Where other programs, steal or a quota took more of a variant's time, variants differ for that reason.
MOST_TAKEN = 0.2

# (variant, ceiling): the variant does all the work of its ceiling and more, so it cannot be faster. The model's work is
# done by several steps per call, too, where one step per call waits for the host.
_CEILINGS = (
    (BASELINE, MODEL_ONLY),
    (CUSTOM_LOOP, MODEL_ONLY),
    (HOST_FED, MODEL_ONLY),
)


def impossible(case: Case, time: StepTime) -> Iterator[Finding]:
    """Yield a finding for each measurement that exceeds its ceiling, the PCIe link or any plausible speed."""
    for variant, ceiling in _CEILINGS:
        if (excess := excess_over(case, time, variant, ceiling)) is not None:
            yield _impossible_finding(case, excess, variant, ceiling)
    rate, link = copy_rate(case, time), link_rate(case)
    if rate is not None and link is not None and rate > link * (1 + TOLERANCE):
        yield _impossible_finding(case, rate / link - 1.0, bytes_per_s=rate, link_bytes_per_s=link)
    if any(summary.throughput.median > MAX_SAMPLES_PER_S for summary in case.variants.values()):
        yield _impossible_finding(case, 1.0)


def excess_over(case: Case, time: StepTime, variant: str, ceiling: str) -> float | None:
    """Return by which share a variant is faster than its ceiling; None if not all of several readings say so.

    Args:
        time: the baseline's step.
    """
    lower, upper = case.variants.get(variant), case.variants.get(ceiling)
    if lower is None or upper is None or min(lower.readings, upper.readings) < MIN_READINGS:
        return None
    others = CALLS.among(case.variants) if ceiling == MODEL_ONLY else []
    slowest = min(_speeds(case, variant))
    fastest = max(speed for name in (ceiling, *others) for speed in _speeds(case, name))
    taken = max(time.share(Part.HOST), sum(host_shares(case, ceiling).values()))
    if slowest <= fastest * (1 + TOLERANCE) or taken > MOST_TAKEN:
        return None
    return lower.throughput.median / upper.throughput.median - 1.0


def _speeds(case: Case, variant: str) -> list[float]:
    """Return samples/s of all readings and windows, all of which must agree that a measurement is impossible."""
    measures = case.measures[variant]
    return [each.throughput for each in measures] + [
        speed for measure in measures for speed in measure.window_throughputs
    ]


def _impossible_finding(case: Case, excess: float, *variants: str, **facts: float) -> Finding:
    found = case.finding(Cause.IMPOSSIBLE, Estimate.exact(excess, "share"), facts=facts)
    return replace(found, variants=variants)


def copy_rate(case: Case, time: StepTime) -> float | None:
    """Return the rate in bytes/s at which the copy part moves a batch; None if unknown."""
    size = case.metric(BASELINE, BATCH_BYTES)
    copy = time.parts.get(Part.COPY)
    if HOST_FED not in case.variants or size is None or copy is None or copy.high <= 0:
        return None
    # A very short copy is too uncertain for a rate.
    return size / copy.high if copy.median > TOLERANCE * time.total.median else None


def link_rate(case: Case) -> float | None:
    """Return the one-way PCIe bandwidth of all GPUs of the device in bytes/s; None if unknown."""
    rates = [
        PCIE_LANE_BYTES_PER_S.get(gpu.pcie_gen or 0, 0.0) * (gpu.pcie_width or 0) for gpu in case.gpu_models
    ]
    return sum(rates) if rates and all(rates) else None


# Share of the sampler's readings.
MAX_MISSED_TICKS = 0.01


def caveats(run: Run, cases: Sequence[CaseResult], beside: Disturbed) -> tuple[Caveat, ...]:
    """Return the caveats of a run without duplicates, warnings before notes; the machine's are health checks.

    Args:
        beside: the readings beside other programs.
    """
    groups = (_setup(run), _trials(run, beside), _telemetry(run), _clocks(cases))
    distinct = dict.fromkeys(caveat for group in groups for caveat in group)
    return tuple(sorted(distinct, key=lambda caveat: caveat.is_note))


def _setup(run: Run) -> Iterator[Caveat]:
    changed = run.manifest.options.fixed_params
    for workload in run.workloads:
        before = {name.casefold(): value for name, value in workload.params.items()}
        own = [
            f"{name}={value}"
            for name, value in changed.items()
            if str(before.get(name.casefold(), value)) != str(value)
        ]
        if own and workload.published:
            yield Caveat(kind=CaveatKind.PARAMETERS, workload=workload.name, text=", ".join(own))
    for data in run.manifest.data:
        if data.kind != "real":
            yield Caveat(kind=CaveatKind.DATA, workload=data.workload, text=data.kind)
    if run.manifest.options.network:
        yield Caveat(kind=CaveatKind.NETWORK)
    for trial in run.trials:
        for text in trial.warnings:
            kind = CaveatKind.WORKLOAD_WARNING
            yield Caveat(kind=kind, workload=trial.workload, device=trial.device, text=text)


def _trials(run: Run, beside: Disturbed) -> Iterator[Caveat]:
    failed = Counter(
        (trial.workload, trial.device, f"{trial.status.predicate}. {trial.message}".strip())
        for trial in run.trials
        if trial.failed and not trial.skipped
    )
    for (workload, device, text), count in failed.items():
        yield Caveat(
            kind=CaveatKind.FAILED_TRIALS, workload=workload, device=device, value=float(count), text=text
        )
    for trial in run.trials:
        if not trial.skipped:
            continue
        for variant, reason in trial.left_out.items():
            yield Caveat(
                kind=CaveatKind.SKIPPED,
                workload=trial.workload,
                device=trial.device,
                variant=variant,
                text=reason,
            )
    slow = slow_trials([trial for trial in run.trials if trial.windows])
    for trial in run.trials:
        place = Caveat(kind=CaveatKind.SLOW_PERIOD, workload=trial.workload, device=trial.device)
        if trial.id in slow:
            yield replace(place, value=1 - slow[trial.id])
        counts = trial.partial or not trial.failed
        if counts and (left_out := uncounted(trial, beside.get(trial.id, ()))):
            yield replace(place, kind=CaveatKind.OTHER_PROGRAMS, value=float(len(left_out)))
        if any(
            not trial.started_ns <= window.start_ns <= window.end_ns <= trial.ended_ns
            for window in trial.windows
        ):
            yield replace(place, kind=CaveatKind.CLOCKS_APART)


def _telemetry(run: Run) -> Iterator[Caveat]:
    ticks = sum(trial.sampling.get("ticks", 0.0) for trial in run.trials)
    missed = sum(trial.sampling.get("missed_ticks", 0.0) for trial in run.trials)
    if ticks and missed / (ticks + missed) > MAX_MISSED_TICKS:
        yield Caveat(kind=CaveatKind.MISSED_TICKS, value=missed / (ticks + missed))
    gaps = {(gap.source, gap.reason): None for trial in run.trials for gap in trial.gaps}
    for source, reason in gaps:
        yield Caveat(kind=CaveatKind.TELEMETRY_GAP, source=source, text=reason)


def _clocks(cases: Sequence[CaseResult]) -> Iterator[Caveat]:
    for case in cases:
        for variant, each in case.variants.items():
            if each.clocks is None:
                continue
            for cause, time in each.clocks.slowed.items():
                yield Caveat(
                    kind=CaveatKind.THROTTLED,
                    workload=case.workload,
                    device=case.device,
                    variant=variant,
                    value=time,
                    text=cause.value,
                )
    if any(
        value > 0 and reading.metric == "cpu_throttle_events_per_s"
        for case in cases
        for each in case.variants.values()
        for reading, value in each.telemetry.items()
    ):
        yield Caveat(kind=CaveatKind.CPU_THROTTLED)
