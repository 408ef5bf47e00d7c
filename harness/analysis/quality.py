"""What a reader must know before trusting the figures: typed facts, each with what to do about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from harness.analysis.measures import Measures
from harness.analysis.quality_host import HOST_CHECKS
from harness.analysis.stats import drift, half_width, outliers
from harness.analysis.training import training_note
from harness.analysis.words import listed, percent
from harness.model.analysis import Quality, Summary
from harness.model.run import Run, Status
from harness.rounding import counted
from workloads.protocol import BASELINE, TUNED

NOTE, WARNING = "note", "warning"
# Half width over median: what a comparison of two machines can still tell apart.
WIDE = 0.05
FEW_TRIALS = 3
# A trend is told when chance gives it in under 5 % of cases and it is worth more than 2 %.
DRIFT_P, DRIFT_CHANGE = 0.05, 0.02
MISSED_TICKS = 0.01

Check = Callable[[Run, Measures, Sequence[Summary]], Iterator[Quality]]


def quality(run: Run, found: Measures, summaries: Sequence[Summary]) -> tuple[Quality, ...]:
    """Return what all checks have to say, warnings first; the same fact once."""
    said = [one for check in (*CHECKS, *HOST_CHECKS) for one in check(run, found, summaries)]
    unique = tuple(dict.fromkeys(said))
    return tuple(sorted(unique, key=lambda one: one.severity != WARNING))


def unfinished(run: Run, found: Measures, summaries: Sequence[Summary]) -> Iterator[Quality]:
    """Name what was planned and not measured, and how trials ended that did not go well."""
    ended = Counter((trial.workload, trial.device, trial.status) for trial in run.trials)
    for (workload, device, status), count in ended.items():
        if status is not Status.OK:
            message = next(
                trial.message for trial in run.trials
                if (trial.workload, trial.device, trial.status) == (workload, device, status)
            )  # fmt: skip
            yield Quality(
                severity=WARNING,
                subject=f"{workload} on {device}",
                fact=f"{counted(count, 'trial')} left out: {status.value}. {message}".strip(),
                remedy="Read log.txt in the trial's folder, then go on by --resume with the run's folder.",
            )
    pairs = dict.fromkeys((trial.workload, trial.device) for trial in run.planned)
    missing = [f"{workload} on {device}" for workload, device in pairs if not _any(run, workload, device)]
    if missing:
        yield Quality(
            severity=WARNING,
            subject="the run",
            fact=f"It stopped before {listed(missing)} had begun.",
            remedy="Go on by --resume with the run's folder.",
        )


def precision(run: Run, found: Measures, summaries: Sequence[Summary]) -> Iterator[Quality]:
    """Warn of few trials and of wide intervals, and say why repeating stopped."""
    reasons = {(stop.workload, stop.device): stop.reason for stop in run.stops}
    for one in summaries:
        if one.variant not in (BASELINE, TUNED):
            continue
        subject = f"{one.workload} on {one.device}, {one.variant}"
        reason = reasons.get((one.workload, one.device), "")
        width = half_width(one.throughput)
        if one.throughput.n < FEW_TRIALS:
            yield Quality(
                severity=WARNING,
                subject=subject,
                fact=f"Only {counted(one.throughput.n, 'trial')}: the spread between trials is not known."
                if one.throughput.n < 2
                else f"Only {counted(one.throughput.n, 'trial')}: the interval says little.",
                remedy=f"Repeat it with --trials {FEW_TRIALS} or more.",
            )
        elif width is not None and width > WIDE:
            yield Quality(
                severity=WARNING,
                subject=subject,
                fact=f"The 95 % interval is wide: {percent(width)} to either side after "
                f"{counted(one.throughput.n, 'trial')}{f' ({reason})' if reason else ''}.",
                remedy="Free the machine of other load and repeat it with more --trials.",
            )


def stability(run: Run, found: Measures, summaries: Sequence[Summary]) -> Iterator[Quality]:
    """Warn of trends over trials and of single trials that are far off."""
    for key, group in found.items():
        if key.variant not in (BASELINE, TUNED):
            continue
        values = [one.throughput for one in group]
        trend = drift(values)
        subject = f"{key.workload} on {key.device}, {key.variant}"
        if trend is not None and trend.p < DRIFT_P and abs(trend.change) > DRIFT_CHANGE:
            way = "faster" if trend.change > 0 else "slower"
            yield Quality(
                severity=WARNING,
                subject=subject,
                fact=f"It became {percent(abs(trend.change))} {way} from the first to the last trial.",
                remedy="Look at clocks and temperature over time; let the machine reach a steady state "
                "first.",
            )
        odd = outliers(values)
        if odd:
            names = listed([group[position].trial.id for position in odd])
            yield Quality(
                severity=NOTE,
                subject=subject,
                fact=f"Far off the others, though not left out: {names}.",
                remedy="See what else ran at that time in the telemetry of those trials.",
            )


def data(run: Run, found: Measures, summaries: Sequence[Summary]) -> Iterator[Quality]:
    """Say where the data is not the published one."""
    trained = {workload.name for workload in run.workloads if workload.task == "train"}
    for one in run.manifest.data:
        if one.kind == "synthetic":
            yield Quality(
                severity=NOTE,
                subject=one.workload,
                fact="It makes its own samples, which mean nothing: speed is comparable"
                + (", accuracy is not." if one.workload in trained else "."),
                remedy="Hold its speed against other runs of the same workload.",
            )
        elif one.kind != "real":
            yield Quality(
                severity=NOTE,
                subject=one.workload,
                fact=f"It trained on procedural data in the shape of {one.name}: {one.why.rstrip('.')}. "
                "Speed is comparable, accuracy is not.",
                remedy="Use --data real to insist on the real dataset.",
            )


def isolation(run: Run, found: Measures, summaries: Sequence[Summary]) -> Iterator[Quality]:
    """Warn of an engine that isolates nothing."""
    engine = run.manifest.engine
    if not engine.isolated:
        yield Quality(
            severity=WARNING,
            subject="engine",
            fact=f"The {engine.name} engine isolates nothing: workloads ran as processes of this host, "
            f"without "
            f"limits and without a pinned system.",
            remedy="Install a container engine with `make engine` and run it again.",
        )


def sampling(run: Run, found: Measures, summaries: Sequence[Summary]) -> Iterator[Quality]:
    """Warn of missed ticks, and list the telemetry that is missing with the reasons."""
    ticks = sum(trial.sampling.get("ticks", 0.0) for trial in run.trials)
    missed = sum(trial.sampling.get("missed_ticks", 0.0) for trial in run.trials)
    if ticks and missed / (ticks + missed) > MISSED_TICKS:
        yield Quality(
            severity=WARNING,
            subject="telemetry",
            fact=f"The sampler missed {percent(missed / (ticks + missed))} of its ticks: the machine was "
            f"too busy "
            f"to be watched at this rate.",
            remedy="Lower --rate, or leave a CPU free with --cpus.",
        )
    gaps: dict[tuple[str, str], dict[str, None]] = {}
    for trial in run.trials:
        for gap in trial.gaps:
            gaps.setdefault((gap.source, gap.reason), {})[gap.metric] = None
    for (source, reason), metrics in gaps.items():
        what = "all of it" if "*" in metrics else listed(list(metrics)[:5]) + _more(len(metrics) - 5)
        yield Quality(
            severity=NOTE,
            subject=f"telemetry from {source}",
            fact=f"Not available ({what}): {reason.rstrip('.')}.",
            remedy="`tfbench doctor` says what this host can measure.",
        )


def said_by_trials(run: Run, found: Measures, summaries: Sequence[Summary]) -> Iterator[Quality]:
    """Pass on what containers and the harness warned of themselves."""
    for text in run.manifest.warnings:
        yield Quality(severity=WARNING, subject="the run", fact=text, remedy="")
    for trial in run.trials:
        for text in trial.warnings:
            yield Quality(severity=NOTE, subject=f"{trial.workload} on {trial.device}", fact=text, remedy="")


def profile(run: Run, found: Measures, summaries: Sequence[Summary]) -> Iterator[Quality]:
    """Warn of the smoke profile, whose figures mean nothing, and of parameters that are not the published."""
    if run.tried_out:
        yield Quality(
            severity=WARNING,
            subject="the run",
            fact="The smoke profile only tries out whether everything works; its figures mean nothing.",
            remedy="Measure with --profile quick or full.",
        )
    changed = run.manifest.parameters.get("params")
    if isinstance(changed, dict) and changed:
        yield Quality(
            severity=WARNING,
            subject="the run",
            fact=f"Parameters differ from the published ones: "
            f"{listed([f'{name}={value}' for name, value in changed.items()])}.",
            remedy="Leave --param away to compare with published numbers.",
        )


def training(run: Run, found: Measures, summaries: Sequence[Summary]) -> Iterator[Quality]:
    """Say how a projected training time takes into account that a cache makes epochs differ."""
    for one in summaries:
        if fact := training_note(one):
            yield Quality(
                severity=NOTE,
                subject=f"{one.workload} on {one.device}, {one.variant}",
                fact=fact,
                remedy="Train to the end to measure it: --profile full.",
            )


CHECKS: tuple[Check, ...] = (
    profile,
    isolation,
    unfinished,
    precision,
    stability,
    data,
    sampling,
    said_by_trials,
    training,
)


def _any(run: Run, workload: str, device: str) -> bool:
    return any(trial.workload == workload and trial.device == device for trial in run.trials)


def _more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""
