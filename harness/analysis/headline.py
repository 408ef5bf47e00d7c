"""The first paragraph: how fast, GPU against CPU, what holds it back, and what the remedies gave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.analysis.align import gpu_names
from harness.analysis.compare import CPU, GPU_OVER_CPU, SCALING, TUNED_OVER_BASELINE
from harness.analysis.rules import analysed, primary
from harness.analysis.words import interval, listed, percent, rounded, significant
from harness.model.analysis import Comparison, Estimate, Finding, PublishedComparison, Summary, Verdict
from harness.model.run import Run, Status
from harness.model.variants import variant_name
from harness.rounding import counted
from workloads.protocol import BASELINE, TUNED

SLOWER, SAME, FASTER = "slower", "about as fast", "faster"


def headline(
    run: Run,
    summaries: Sequence[Summary],
    ratios: Sequence[Comparison],
    published: Sequence[PublishedComparison],
    verdicts: Sequence[Verdict],
) -> str:
    """Return a paragraph in plain English that stands by itself."""
    if not summaries:
        return " ".join(_nothing(run))
    if run.tried_out:
        return " ".join(_tried_out(run, summaries))
    device = _main_device(summaries)
    return " ".join(
        (
            *_speeds(run, summaries, ratios, device),
            *_published(summaries, published, device),
            *_limits(run, summaries, verdicts, device),
            *_tuned(summaries, ratios, device),
            *_missed(verdicts, device),
            *_scaling(ratios),
            *_without_result(run, summaries),
        )
    )


def _nothing(run: Run) -> Iterator[str]:
    yield "No trial finished, so nothing was measured."
    failed = [trial for trial in run.trials if trial.status is not Status.OK]
    if failed:
        first = _closed(failed[0].message)
        yield f"{len(failed)} of {len(run.planned)} planned trials ended early; the first: {first}"


def _tried_out(run: Run, summaries: Sequence[Summary]) -> Iterator[str]:
    """Say of a smoke run that it works, and nothing of its speeds: a few steps give none."""
    well = sum(trial.status is Status.OK for trial in run.trials)
    went = f"{well} of {counted(len(run.planned), 'trial')} went well"
    yield f"This run only tried out whether everything works: {went}."
    yield "Its figures mean nothing; measure with --profile quick or full."
    yield from _without_result(run, summaries)


def _main_device(summaries: Sequence[Summary]) -> str:
    """Return the device that the paragraph is about: the first single GPU, other GPUs, the CPU."""
    devices = tuple(dict.fromkeys(one.device for one in summaries))
    cards = [device for device in devices if device != CPU]
    return min(cards, key=lambda device: (len(gpu_names(device)), devices.index(device)), default=CPU)


def _speeds(
    run: Run, summaries: Sequence[Summary], ratios: Sequence[Comparison], device: str
) -> Iterator[str]:
    name = _device(run, device)
    compared = [one for one in ratios if one.kind == GPU_OVER_CPU and one.numerator == f"{device}/{BASELINE}"]
    verb = _verb(run, device)
    if len(compared) == 1:
        how = _as(run, compared)
        yield f"{how}, {name} {verb} {compared[0].workload} {_against(compared[0].ratio)}."
    elif compared:
        yield f"{_as(run, compared)}, {name} is {_grouped(compared)}."
    measured = {one.workload: one for one in summaries if one.device == device and one.variant == BASELINE}
    alone = [one for name, one in measured.items() if name not in {other.workload for other in compared}]
    if alone:
        parts = [
            f"{one.workload} at {rounded(one.throughput)} samples/s{interval(one.throughput)}"
            for one in alone
        ]
        yield f"{_as(run, alone)}, {name} {verb} {listed(parts)}."
    if not measured:
        others = [one for one in summaries if one.device == device]
        parts = [f"{one.workload} ({one.variant}) {rounded(one.throughput)} samples/s" for one in others]
        yield f"Measured on {name}: {listed(parts)}."


def _as(run: Run, named: Sequence[Summary | Comparison]) -> str:
    """Say whose the code is: a workload that cites no source was never published."""
    cited = {one.name for one in run.workloads if one.source}
    return "As published" if any(one.workload in cited for one in named) else "Baseline"


def _against(ratio: Estimate) -> str:
    """Say a ratio against the CPU as faster or slower, whichever it is beyond doubt."""
    word, value = _direction(ratio)
    if word == SAME:
        return f"{SAME} as the CPU{interval(ratio)}"
    if word == FASTER:
        return f"{rounded(value)} times as fast as the CPU{interval(value)}"
    return f"{rounded(value)} times slower than the CPU{interval(value)}"


def _grouped(ratios: Sequence[Comparison]) -> str:
    """Say on which workloads a device loses to the CPU and on which it wins, the losses first."""
    groups: dict[str, list[str]] = {SLOWER: [], SAME: [], FASTER: []}
    for one in ratios:
        word, value = _direction(one.ratio)
        groups[word].append(f"{one.workload} ({rounded(value)} times)")
    than = {SLOWER: "slower than the CPU on", SAME: "about as fast as the CPU on"}
    than[FASTER] = "faster than the CPU on"
    return "; ".join(f"{than[word]} {listed(names)}" for word, names in groups.items() if names)


def _direction(ratio: Estimate) -> tuple[str, Estimate]:
    if ratio.n >= 2 and ratio.low <= 1 <= ratio.high:
        return SAME, ratio
    if ratio.median >= 1:
        return FASTER, ratio
    inverse = Estimate(
        median=1 / ratio.median, low=1 / ratio.high, high=1 / ratio.low, n=ratio.n, unit=ratio.unit
    )
    return SLOWER, inverse


def _published(
    summaries: Sequence[Summary], published: Sequence[PublishedComparison], device: str
) -> Iterator[str]:
    """Say how this machine does beside the first published time or speed; several are left to the table."""
    said: dict[str, str] = {}
    for one in published:
        if one.device == device and one.factor is not None and one.unit in ("s", "samples/s"):
            factor = significant(one.factor.median)
            text = f"{factor} times the speed published for {one.system} ({one.source})"
            said.setdefault(one.workload, text)
    if len(said) == 1:
        ((workload, text),) = said.items()
        listed_too = {one.workload for one in summaries if (one.device, one.variant) == (device, BASELINE)}
        yield f"For {workload} that is {text}." if len(listed_too) > 1 else f"That is {text}."


def _limits(
    run: Run, summaries: Sequence[Summary], verdicts: Sequence[Verdict], device: str
) -> Iterator[str]:
    """Say once for each cause which workloads it holds back."""
    workloads = tuple(dict.fromkeys(one.workload for one in summaries if one.device == device))
    causes: dict[str, list[Verdict]] = {}
    for name in workloads:
        found = primary(verdicts, name, device)
        if found is not None:
            causes.setdefault(found.rule, []).append(found)
    for group in causes.values():
        if len(workloads) == 1:
            yield group[0].sentence
            continue
        worst = max(group, key=lambda one: one.cost or 0.0)
        whom = "All" if len(group) == len(workloads) else listed([one.workload for one in group])
        same = f" (of {worst.workload}, the worst)" if len(group) > 1 else ""
        yield f"{whom}{same}: {worst.sentence}"
    if not causes and workloads:
        yield _no_cause(run, verdicts, device)


def _no_cause(run: Run, verdicts: Sequence[Verdict], device: str) -> str:
    if not analysed(run):
        return "What limits it was not looked into (--no-analysis)."
    if any(one.finding is Finding.INCONCLUSIVE for one in verdicts if one.device == device):
        return "What limits it could not be told from what was recorded."
    return "No single cause holds it back."


def _tuned(summaries: Sequence[Summary], ratios: Sequence[Comparison], device: str) -> Iterator[str]:
    """Say what the remedies gave, having been applied, and how the GPU then stands to the CPU."""
    gains = [
        one for one in ratios if one.kind == TUNED_OVER_BASELINE and one.numerator == f"{device}/{TUNED}"
    ]
    if not gains:
        return
    over = [one for one in ratios if one.kind == GPU_OVER_CPU and one.numerator == f"{device}/{TUNED}"]
    if len(gains) == 1:
        what, gain = _changed(summaries, gains[0].workload, device), gains[0].ratio
        word, _ = _direction(gain)
        speed = SAME if word == SAME else f"{rounded(gain)} times as fast"
        if word == SLOWER:
            yield f"The remedies that were tried{what} do not help: it then runs {speed}{interval(gain)}."
        else:
            yield f"With the remedies applied{what} it runs {speed}{interval(gain)}."
    else:
        parts = [f"{one.workload} {rounded(one.ratio)}" for one in gains]
        tuned = variant_name(TUNED)
        yield f"With the remedies applied ({tuned}) it runs this many times as fast: {listed(parts)}."
    if over:
        where = _against(over[0].ratio) if len(over) == 1 else _grouped(over)
        yield f"Tuned on both sides it is {where}."


def _missed(verdicts: Sequence[Verdict], device: str) -> Iterator[str]:
    """Say plainly where a main cause's remedy did not give what was predicted."""
    for name in dict.fromkeys(one.workload for one in verdicts if one.device == device):
        found = primary(verdicts, name, device)
        remedy = found.remedy if found is not None else None
        if remedy is None or remedy.miss is None or remedy.predicted_gain is None or not remedy.measured_gain:
            continue
        least = "at least " if remedy.at_least else ""
        yield (
            f"The prediction for {name} missed: {least}{significant(remedy.predicted_gain)} times as fast "
            f"was predicted for its remedy, {significant(remedy.measured_gain.median)} was measured "
            f"({variant_name(remedy.measured_variant)})."
        )


def _changed(summaries: Sequence[Summary], workload: str, device: str) -> str:
    """Name the variant that applied the remedies, and what it changed."""
    changes = [
        change.what
        for one in summaries
        if (one.workload, one.device, one.variant) == (workload, device, TUNED)
        for change in one.changes
        if change.what != "global batch"
    ]
    return f" ({': '.join(filter(None, (variant_name(TUNED), ', '.join(changes))))})"


def _scaling(ratios: Sequence[Comparison]) -> Iterator[str]:
    found = [one for one in ratios if one.kind == SCALING]
    if found:
        most = max(found, key=lambda one: (one.numerator.count("+"), one.numerator.endswith(TUNED)))
        device, _, variant = most.numerator.partition("/")
        count = len(gpu_names(device))
        ratio = most.ratio
        span = f" (95 % interval {percent(ratio.low)} to {percent(ratio.high)})" if ratio.n > 1 else ""
        how = "tuned" if variant == TUNED else "as published"
        yield (
            f"{count} GPUs together reach {percent(ratio.median)} of {count} times one GPU's speed on "
            f"{most.workload}, {how}{span}."
        )


def _without_result(run: Run, summaries: Sequence[Summary]) -> Iterator[str]:
    """Say which devices were meant to be measured and gave nothing, with the first reason."""
    measured = {one.device for one in summaries}
    for device in dict.fromkeys(trial.device for trial in run.planned):
        failed = [trial for trial in run.trials if trial.device == device and trial.status is not Status.OK]
        if device not in measured:
            why = f": {_closed(failed[0].message)}" if failed else ": the run stopped before its first trial."
            yield f"{_device(run, device)[:1].upper()}{_device(run, device)[1:]} gave no result{why}"


def _device(run: Run, device: str) -> str:
    """Name a device with its model: "GPU 0 (NVIDIA H200)", "4 GPUs (NVIDIA H200)"."""
    cards = gpu_names(device)
    if not cards:
        model = run.manifest.system.get("host_processor_model_name", "")
        return f"the CPU ({model})" if model else "the CPU"
    position = int(cards[0].removeprefix("gpu")) if cards[0].removeprefix("gpu").isdecimal() else -1
    model = run.manifest.gpus[position].name if 0 <= position < len(run.manifest.gpus) else ""
    name = f"GPU {cards[0].removeprefix('gpu')}" if len(cards) == 1 else f"{len(cards)} GPUs"
    return f"{name} ({model})" if model else name


def _verb(run: Run, device: str) -> str:
    verb = "train" if {workload.task for workload in run.workloads} == {"train"} else "run"
    return verb if len(gpu_names(device)) > 1 else f"{verb}s"


def _closed(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
