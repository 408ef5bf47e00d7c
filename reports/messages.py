"""Sentences of reports, for the page, Markdown and the terminal."""

from __future__ import annotations

import math
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence

from harness.fixes.rule import Safety
from harness.model.analysis import (
    MOST_SPEEDUP,
    RELIABLE_WIDTH,
    Ablation,
    Analysis,
    Capacity,
    Cause,
    Caveat,
    CaveatKind,
    Finding,
    Precision,
    StepTime,
)
from harness.model.run import Run, Status, Trial
from harness.wording import counted, point_words, some
from reports import numbers
from reports.causes import fix
from reports.text import SHORT_PARTS, device_name, device_names
from workloads.variants import BASELINE, MODEL_ONLY, TUNED, Part, variant_name

PART_TEXTS: Mapping[Part, str] = {
    Part.COMPUTE: "the device is computing",
    Part.LAUNCH: "the device waits for the next kernel or call",
    Part.FRAMEWORK: "Python in and around the compiled step: Keras fit, callbacks, eager code",
    Part.EPOCHS: "ends of epochs, spread over their steps: validation, callbacks, a new iterator",
    Part.INPUT_WAIT: "the step waits for its batch",
    Part.INPUT_SLOWDOWN: "the step itself is slower while the pipeline runs",
    Part.COPY: "the batch is copied to the device",
    Part.EXCHANGE: "gradients are exchanged between devices",
    Part.HOST: "CPU quota, steal or other programs",
    Part.UNEXPLAINED: "not accounted for",
}


def limit(finding: Finding | None, time: StepTime | None) -> str:
    """Return what limits a workload in a few words: "input 94 % (decode)".

    If compute takes longer than the finding, it comes first: "compute 65 %, then launch 22 %".
    """
    if finding is None:
        return "not analysed"
    cause = finding.cause.value
    if not finding.parts or finding.share is None:
        return cause
    name = _part_name(finding)
    if finding.cause is Cause.UPDATE and time:
        whole = numbers.percent(time.share(Part.COMPUTE))
        return (
            f"compute {whole} ({cause} {numbers.percent(finding.share.median)}: {', '.join(finding.stages)})"
        )
    if finding.cause in (Cause.HEAT, Cause.POWER, Cause.HARDWARE):
        name = cause  # its share is the time lost, not all of compute
    own = name == cause or finding.cause is Cause.EPOCHS
    detail = ", ".join(finding.stages) if own else cause
    text = f"{name} {numbers.percent(finding.share.median)}{f' ({detail})' if detail else ''}"
    if time and limiting_part(finding, time) is not finding.parts[0]:
        return f"compute {numbers.percent(time.share(Part.COMPUTE))}, then {text}"
    return text


def limiting_part(finding: Finding, time: StepTime | None) -> Part | None:
    """Return the part of a step that limits a workload: compute, if it takes longer than what the finding names."""
    first = next(iter(finding.parts), None)
    compute = time.share(Part.COMPUTE) if time else 0.0
    shorter = finding.share is not None and finding.share.median < compute
    return Part.COMPUTE if first and shorter and Part.COMPUTE not in finding.parts else first


def glossary(parts: Collection[Part], *, tuned: bool) -> Iterator[tuple[str, str]]:
    """Yield the terms of a first screen that need a word, with their meaning; `parts` are those that limit."""
    for part in (Part.LAUNCH, Part.FRAMEWORK, Part.EPOCHS, Part.HOST):
        if part in parts:
            yield part.value, PART_TEXTS[part]
    if tuned:
        yield "tuned", "a script with every change that helped"
    yield "reading", "one measurement in a process of its own"


def removed(finding: Finding) -> str:
    """Return what the step gains without what a finding names: as predicted, and as measured in a test."""
    ablation = finding.ablation
    what = finding.cause.value if finding.cause.of_machine else _part_name(finding)
    if ablation is None:
        return f"Without {what}: {numbers.factor(finding.gain)} predicted." if finding.gain else ""
    measured = f"As a test, {variant_name(ablation.variant)}: {numbers.gain(ablation.gain)}"
    return f"{measured}{_prediction(ablation)}."


def _part_name(finding: Finding) -> str:
    first = next(iter(finding.parts), None)
    if first is Part.EPOCHS:
        if "predicts" in finding.facts:
            return "time between calls"
        return "time before and after the epoch" if "once" in finding.facts else "time between epochs"
    return SHORT_PARTS.get(first, first.value) if first else finding.cause.value


def compared(safeties: Collection[str]) -> str:
    """Return what "same numbers" rests on, where a change is said to have them; "" elsewhere."""
    if not {Safety.SAME, Safety.ORDER} & {*safeties}:
        return ""
    return (
        f"“{Safety.SAME}”: the script's losses in up to 64 steps and three epochs, and the same in what follows, "
        "shortened. What changes later in a training is not compared: check a whole one before you keep a change."
    )


def further(finding: Finding) -> str:
    """Return a further finding of a workload in one line."""
    share = numbers.percent(finding.share.median) if finding.share else ""
    name = _part_name(finding)
    detail = "" if finding.cause is Cause.EPOCHS or finding.cause.value == name else finding.cause.value
    what = f"{name} {share}{f' ({detail})' if detail else ''}".strip()
    return " ".join(filter(None, (f"Then {what}: {fix(finding)}.", removed(finding))))


def _prediction(ablation: Ablation) -> str:
    """Return a predicted gain in parentheses, its interval if it is another than the measured one; "" without one."""
    predicted, gain = ablation.predicted, ablation.gain
    if predicted is None:
        return ""
    if gain.low <= predicted.median <= gain.high:
        return f" ({numbers.factor(predicted.median)} predicted)"
    missed = "" if gain.low <= predicted.high and predicted.low <= gain.high else ": missed"
    low, high = numbers.factor(predicted.low), numbers.factor(predicted.high)
    if predicted.high >= MOST_SPEEDUP:
        return f" (at least {low} predicted{missed})"
    return f" ({' to '.join(dict.fromkeys((low, high)))} predicted{missed})"


def trust(analysis: Analysis) -> tuple[str, str]:
    """Return a line about the quality of the run and its level: "good", "notice" or "alert"."""
    run = analysis.run
    if run.smoke:
        return "Smoke run: it only checks that everything works. Ignore the numbers.", "alert"
    speeds = {
        f"{case.workload} on {device_name(case.device)}, {variant_name(variant)}": result.throughput
        for case, variant, result in analysis.variants
        if variant in (BASELINE, TUNED)
    }
    points = [point for sweep in analysis.sweeps for point in sweep.points]
    speeds |= {point_words(point.point): point.throughput for point in points if point.throughput}
    if not speeds:
        return "Nothing was measured.", "alert"
    widths = {name: width for name, value in speeds.items() if (width := value.half_width) is not None}
    if not widths:
        return "Each speed has 1 reading, so their accuracy is unknown.", "notice"
    within = sum(width <= RELIABLE_WIDTH for width in widths.values())
    limit = f"{100 * RELIABLE_WIDTH:.0f}{numbers.SPACE}%"
    text = f"{within} of {counted(len(widths), 'speed')} within ±{limit}"
    worst = max(widths, key=lambda name: widths[name])
    if within < len(widths):
        text += f"; widest {numbers.spread(speeds[worst])}: {worst}"
    if single := len(speeds) - len(widths):
        text += f"; {single} from 1 reading"
    if within == len(speeds):
        return text, "good"
    return " ".join(filter(None, (f"{text}.", _why_wide(analysis.precision)))), "notice"


def _why_wide(found: Precision | None) -> str:
    """Return why the widest interval is wide, by what was measured; "" if all are narrow."""
    if found is None or found.width <= RELIABLE_WIDTH:
        return ""
    if found.taken_by is not None:
        return f"{found.taken_by.value.capitalize()} took {numbers.percent(found.taken)} of its CPU time."
    if found.machine is not None and found.machine >= found.between / 2:
        return f"The machine's own speed varied by {numbers.percent(found.machine)} between its readings."
    steady = f", each steady within {numbers.percent(found.within)}" if found.within is not None else ""
    return f"Its processes differ by {numbers.percent(found.between)}{steady}."


# Longer runs are not proposed: whatever varies that much is not noise.
_LONGEST_TIME_MIN = 60


def command(run: Run) -> str:
    """Return the command line of a run; "" if it is more than one of tfbench, as a stranger's record may say."""
    try:
        words = shlex.split(run.manifest.command)
    except ValueError:
        return ""
    return (
        run.manifest.command if words[:1] == ["tfbench"] and shlex.join(words) == run.manifest.command else ""
    )


def repeat(analysis: Analysis) -> str:
    """Return the command that measures long enough for narrow intervals; "" if they are, or mean nothing."""
    run = analysis.run
    if trust(analysis)[1] != "notice" or not command(run):
        return ""
    words = shlex.split(command(run))
    for option in ("--trials", "--time", "--out"):
        while option in words:
            del words[(at := words.index(option)) : at + 2]
    needed_s = max(1.5 * run.duration_s, analysis.precision.time_s if analysis.precision else 0.0)
    return shlex.join([*words, "--time", f"{min(_LONGEST_TIME_MIN, math.ceil(needed_s / 60))}m"])


def banners(run: Run) -> Iterator[str]:
    """Yield warnings for the top of the report."""
    if not run.manifest.engine.isolated:
        yield "Not isolated: workloads ran as plain processes. Install a container engine with `make engine`."
    then = (
        "The run is still in progress; regenerate the report when it ends."
        if run.in_progress
        else "Continue it with --resume and the run's folder."
    )
    if not run.trials and run.ended:
        yield "The folders of its trials are missing: copy the whole run folder."
    elif not run.trials:
        yield f"No trial has ended yet, so there are no speeds. {then}"
    elif run.unfinished:
        why = next((f" {trial.message}" for trial in run.trials if trial.status is Status.INTERRUPTED), "")
        required = {trial.id for trial in run.planned if trial.index < run.manifest.profile.trials}
        ok = sum(trial.status is Status.OK and trial.id in required for trial in run.trials)
        how = "Still running" if run.in_progress else "Cut short"
        counts = " What it measured counts." if any(trial.partial for trial in run.trials) else ""
        yield f"{how}: {ok} of {len(required)} required trials are complete.{why}{counts} {then}"
    for trial in run.trials:
        if trial.skipped:
            reasons = "; ".join(
                f"{variant_name(name)}: {reason.rstrip('.')}" for name, reason in trial.left_out.items()
            )
            yield f"Skipped: {trial.workload} on {device_name(trial.device)} ({reasons})."
    parts = {
        trial.workload: trial.left_out[MODEL_ONLY]
        for trial in run.trials
        if MODEL_ONLY in trial.left_out and not (trial.failed or trial.skipped)
    }
    for name, reason in parts.items():
        yield f"{name} is not analysed, because its step cannot be compiled, or run alone: {reason.rstrip('.')}."
    failed = [
        trial
        for trial in run.trials
        if trial.failed and trial.status is not Status.INTERRUPTED and not trial.skipped
    ]
    for group, what in (
        ([trial for trial in failed if not trial.partial], "failed"),
        ([trial for trial in failed if trial.partial], "ended early; what was measured before counts"),
    ):
        if group and all(trial.message == group[0].message for trial in group):
            yield f"{_trials(len(group), group)} {what}: {group[0].message}"
        elif group:
            yield f"{counted(len(group), 'trial')} {what}; the first, of {group[0].workload}: {group[0].message}"


def _trials(number: int, of: Sequence[Trial | Caveat]) -> str:
    """Return a number of trials with their workloads: "3 trials of cats-dogs, gpt2"."""
    return f"{counted(number, 'trial')} of {some(tuple(dict.fromkeys(trial.workload for trial in of)))}"


def caveat_lines(caveats: Sequence[Caveat], *, notes: bool) -> list[tuple[str, str]]:
    """Return the warnings or the notes, grouped by kind and text, as (sentence, first few subjects)."""
    groups: dict[tuple[CaveatKind, str], list[Caveat]] = {}
    devices = device_names(caveat.device for caveat in caveats if caveat.device)
    for caveat in caveats:
        if caveat.is_note is notes:
            groups.setdefault((caveat.kind, caveat.text), []).append(caveat)
    return [
        (
            _caveat(group),
            some(tuple(dict.fromkeys(filter(None, (_subject(caveat, devices) for caveat in group))))),
        )
        for group in groups.values()
    ]


def _subject(caveat: Caveat, devices: Mapping[str, str]) -> str:
    """Return the subject of a caveat: "cats-dogs on GPU, tuned"."""
    device = devices.get(caveat.device, "")
    where = f"{caveat.workload} on {device}" if caveat.workload and device else caveat.workload or device
    variant = variant_name(caveat.variant) if caveat.variant else ""
    return ", ".join(filter(None, (where, variant, caveat.source)))


def _caveat(group: Sequence[Caveat]) -> str:
    first, worst = group[0], max((abs(caveat.value) for caveat in group), default=0.0)
    count, percent = len(group), numbers.percent(worst)
    texts: Mapping[CaveatKind, str] = {
        CaveatKind.PARAMETERS: f"Parameters differ from the published ones: {first.text}.",
        CaveatKind.FAILED_TRIALS: f"{_trials(round(sum(caveat.value for caveat in group)), group)} {first.text}",
        CaveatKind.SKIPPED: f"Skipped: {first.text}",
        CaveatKind.SLOW_PERIOD: (
            f"{counted(count, 'trial')} in slow periods of the host (up to {percent} slower) left out."
        ),
        CaveatKind.OTHER_PROGRAMS: (
            f"{counted(round(sum(caveat.value for caveat in group)), 'reading')} beside other programs left out, "
            "because the same was also read without them."
        ),
        CaveatKind.DATA: f"{first.text.capitalize()} data: compare speeds, ignore accuracy.",
        CaveatKind.NETWORK: "The containers had network access: what they download may differ in another run.",
        CaveatKind.MISSED_TICKS: f"The sampler missed {percent} of its readings: the machine was busy, or tfbench "
        "was stopped for a while. If it was not, lower --rate.",
        CaveatKind.TELEMETRY_GAP: f"Telemetry not available: {first.text.rstrip('.')}.",
        CaveatKind.WORKLOAD_WARNING: first.text,
        CaveatKind.CLOCKS_APART: "The container's clock is not the host's: telemetry is not aligned.",
        CaveatKind.THROTTLED: f"Lowered GPU clocks ({first.text}), for up to {percent} of the time.",
        CaveatKind.CPU_THROTTLED: "CPU cores were throttled by heat. Improve the cooling.",
    }
    return texts[first.kind]


def no_rate(capacity: Capacity) -> str:
    """Return in how many trials some rate met the bound, for a capacity without a rate."""
    return f"met in {capacity.kept} of {counted(capacity.trials, 'trial')}"


TERMS: Mapping[str, str] = {
    "Variant": "One way to run a workload: baseline is the code as published, or your script; tuned is the same model "
    "on the same data with the changes that helped, including batch size and precision where listed; others isolate "
    "input or model.",
    "Reading": "One measurement of one variant in a process of its own: consecutive windows of steps. Intervals come "
    "from the spread of readings, or of trials if there are three or more.",
    "Trial": "One round of readings of a workload on a device. A container serves all rounds of its workload and "
    "device; rounds of different workloads alternate.",
    "Steady state": "After import, compilation and warm-up. All speeds are measured there.",
    "Efficiency": "The speed of several GPUs divided by their number and by the speed of one.",
    "95 % interval": "If the measurement were repeated, 95 of 100 such intervals would contain the true value. ± is "
    "half of it. Speeds with overlapping intervals can still differ: gains and comparisons test the ratio.",
    "GPU utilisation, SM activity": "Utilisation is the share of time in which any kernel ran, however small. SM "
    "activity is the share of streaming multiprocessors in use.",
}
