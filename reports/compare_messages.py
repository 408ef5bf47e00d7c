"""Every sentence of a comparison: headline, warnings, and what training over several workers comes to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from harness.model.comparison import (
    Extract,
    Gate,
    Outcome,
    Result,
    Section,
    Speed,
    Trend,
    Versus,
)
from harness.model.run import Placement
from harness.model.workers import Scaling
from harness.wording import counted, some
from reports import numbers
from reports.messages import listed
from reports.names import device_name, device_names, variant_name

MARKS: Mapping[Outcome, str] = {
    Outcome.FASTER: "▲",
    Outcome.SLOWER: "▼",
    Outcome.SAME: "≈",
    Outcome.UNKNOWN: "?",
    Outcome.NOT_COMPARED: "",
}
_SECTIONS: Mapping[Section, str] = {
    Section.IMAGES: "the images differ, and with them the libraries",
    Section.DATA: "the data differ",
    Section.DRIVER: "the GPU drivers differ",
    Section.SETTINGS: "profile or parameters differ",
    Section.WORKLOADS: "the workloads differ and share only their names",
    Section.SOFTWARE: "the software differs",
}
SCALING_HELP = (
    "Efficiency is the speed of all workers over that of one times their number. An exchange is all gradients "
    "exchanged while nothing computes: the most that it can add to a step."
)
MINUS = "\N{MINUS SIGN}"
_INCOMPLETE = 6  # runs that are named


def what(versus: Versus, each: Result | Speed | Trend) -> str:
    """Name a workload, device and variant."""
    return f"{each.workload}, {device_in(versus, each.device)}, {variant_name(each.variant)}"


def device_in(versus: Versus, device: str) -> str:
    """Return a device's name; "GPU" where no run has another."""
    return device_names(each.device for each in versus.results).get(device, device)


def over(versus: Versus) -> str:
    """Name the run that ratios are over."""
    return "the median run of each kind of machine" if versus.by_kind else versus.runs[versus.reference].label


def title(versus: Versus) -> str:
    """Name a comparison."""
    if versus.scaling is not None:
        return f"Training over {listed([str(workers) for workers in versus.scaling.placements])} workers"
    if len(versus.runs) == 2:
        base = versus.reference
        return f"{versus.runs[1 - base].label} vs {versus.runs[base].label}"
    machines = {run.machine for run in versus.runs}
    where = next(iter(machines)) if len(machines) == 1 else f"{len(machines)} kinds of machine"
    return f"{counted(len(versus.runs), 'run')}: {where}"


def headline(versus: Versus) -> str:
    """Return at most two sentences that stand by themselves."""
    if versus.scaling is not None and (lines := scaling_lines(versus.scaling)):
        return " ".join(lines[:2])
    if not versus.standings:
        return "Nothing was measured that could be compared."
    return " ".join(filter(None, (_ranking(versus), _outcomes(versus))))


def _ranking(versus: Versus) -> str:
    others = [each for each in versus.standings if each.run != versus.reference]
    if not others:
        return ""
    first, last = (f"{versus.runs[each.run].label}" for each in (others[0], others[-1]))
    slowest = (
        f", and {last}, the slowest, {numbers.ratio_estimate(others[-1].score)}" if len(others) > 1 else ""
    )
    base = f"as fast as {versus.runs[versus.reference].label}"
    workloads = counted(others[0].workloads, "workload")
    return f"{first} is {numbers.ratio_estimate(others[0].score)} {base}{slowest}, by the best variant of {workloads}."


def _outcomes(versus: Versus) -> str:
    compared = [(each, each.ratio) for each in versus.results if each.ratio is not None]
    if not compared:
        return "No workload was measured in more than one run."
    parts = []
    for outcome in (Outcome.SLOWER, Outcome.FASTER):
        own = [(each, ratio) for each, ratio in compared if each.outcome is outcome]
        names = [f"{what(versus, each)} ({numbers.ratio(ratio.median)})" for each, ratio in own]
        if len(versus.runs) > 2:
            names = list(dict.fromkeys(versus.runs[each.run].label for each, _ in own))
        parts += [f"{outcome.value}: {some(names)}"] if names else []
    if parts:
        text = "; ".join(parts)
        return f"{text[0].upper()}{text[1:]}."
    if all(each.outcome is Outcome.UNKNOWN for each, _ in compared):
        return "Single trials: no difference can be told."
    return f"No difference in {counted(len(compared), 'comparison')}."


def warnings(versus: Versus, gate: Gate | None) -> Iterator[str]:
    """Yield what must be known before any number: the check, smoke runs, what is not comparable."""
    if gate is not None and gate.failed:
        slower = f"{len(gate.failed)} of {counted(len(gate.checks), 'speed')}"
        yield f"Check failed: {slower} slower than in {over(versus)} by {numbers.percent(gate.limit)} or more."
    if smoke := [run.label for run in versus.runs if run.smoke]:
        yield f"Smoke runs only check that everything works. Ignore the numbers of {some(smoke)}."
    groups: dict[Section, list[str]] = {}
    for each in versus.differences:
        if not each.comparable:
            groups.setdefault(each.section, []).append(each.field)
    for section, fields in groups.items():
        yield f"Not comparable: {_SECTIONS[section]} ({some(fields)})."


def notes(versus: Versus) -> list[str]:
    """Return which runs are incomplete."""
    result = [text for run in versus.runs for text in _incomplete(run)]
    more = len(result) - _INCOMPLETE
    return [*result[:_INCOMPLETE], *([f"{counted(more, 'more run')} incomplete."] if more > 0 else [])]


def _incomplete(run: Extract) -> Iterator[str]:
    ended = f"{run.ok} of {counted(run.planned, 'planned trial')}"
    if run.swept:
        yield f"{run.label}: a sweep's points are not compared. Open the sweep's own report."
    elif not run.speeds:
        yield f"{run.label}: nothing was measured."
    elif run.unfinished:
        yield f"{run.label}: cut short or still running, {ended}."
    elif run.ok < run.planned and not run.adaptive:
        yield f"{run.label}: {ended} ended well."


def method(versus: Versus) -> str:
    """Return how speeds were compared, and what the marks mean."""
    together = f", which hold for all {versus.tests} comparisons together" if versus.tests > 1 else ""
    return (
        f"Speeds are medians of trials; ratios have 95 % intervals{together}. "
        "▲ faster and ▼ slower: the interval excludes 1. ≈ it does not. ? one trial."
    )


def trend_line(trends: Sequence[Trend]) -> str:
    """Return what trends come to where chance does not explain them: ": baseline −12 %"."""
    parts = [
        f"{variant_name(each.variant)} {'+' if each.change > 0 else MINUS}{numbers.percent(abs(each.change))}"
        for each in trends
        if each.change is not None
    ]
    return f": {', '.join(parts)} from first to last" if parts else ""


def scaling_lines(scaling: Scaling) -> list[str]:
    """Return for each workload, device and variant what the most workers do over one."""
    most = {each.key: each for each in scaling.points}
    return [
        f"{each.workload}, {variant_name(each.variant)}: {each.workers} workers on {device_name(each.device)} are "
        f"{numbers.ratio(each.efficiency.median * each.workers)} as fast as one "
        f"({numbers.percent(each.efficiency.median)} efficiency)."
        for each in most.values()
        if each.efficiency is not None and each.workers > 1
    ]


def scaling_caveats(placements: Mapping[int, Placement]) -> Iterator[str]:
    """Yield what must be known before efficiency is taken for that of a network of machines."""
    shared = {workers: each for workers, each in placements.items() if each.oversubscribed}
    if not shared:
        return
    workers, most = max(shared.items())
    machines = counted(len(set(most.machines)), "machine")
    yield f"{workers} workers shared {machines}: part of the exchange crossed no network."
    each = max(Counter(most.machines).values())
    cpus = "the same CPUs" if most.cpus is None else f"the same {counted(most.cpus, 'CPU')}"
    yield (
        f"Oversubscribed: {each} workers used {cpus}, and so did one alone. "
        f"Expect {numbers.percent(1 / each)} efficiency at most where one keeps them busy."
    )
