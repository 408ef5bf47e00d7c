"""Sentences of comparisons: headline and warnings."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from statistics import median

from harness.model.comparison import (
    Extract,
    Gate,
    Outcome,
    Result,
    Section,
    Speed,
    Versus,
)
from harness.wording import counted, some
from reports import numbers
from reports.text import device_names
from workloads.variants import variant_name

MARKS: Mapping[Outcome, str] = {
    Outcome.FASTER: "▲",
    Outcome.SLOWER: "▼",
    Outcome.SAME: "≈",
    Outcome.UNDECIDED: "~",
    Outcome.UNKNOWN: "?",
    Outcome.NOT_COMPARED: "",
}


def subject(versus: Versus, result: Result | Speed) -> str:
    """Return the name of a workload, device and variant."""
    return f"{result.workload}, {device_in(versus, result.device)}, {variant_name(result.variant)}"


def device_in(versus: Versus, device: str) -> str:
    """Return a device's name; "GPU" if it is the only one in all runs."""
    return device_names(result.device for result in versus.results).get(device, device)


def reference_name(versus: Versus) -> str:
    """Return the name of the reference of ratios."""
    return versus.runs[versus.reference].label


def title(versus: Versus) -> str:
    """Return the title of a comparison."""
    if len(versus.runs) == 2:
        base = versus.reference
        return f"{versus.runs[1 - base].label} vs {versus.runs[base].label}"
    machines = {run.machine for run in versus.runs}
    where = next(iter(machines)) if len(machines) == 1 else f"{len(machines)} kinds of machine"
    return f"{counted(len(versus.runs), 'run')}: {where}"


def headline(versus: Versus) -> str:
    """Return the result of a comparison in at most two sentences."""
    if smoke := [run.label for run in versus.runs if run.smoke]:
        return f"Smoke runs only check that everything works. Ignore the numbers of {some(smoke)}."
    if not versus.standings:
        return "Nothing was measured that could be compared."
    return " ".join(filter(None, (_ranking(versus), _outcomes(versus))))


def _ranking(versus: Versus) -> str:
    fastest = next((standing for standing in versus.standings if standing.run != versus.reference), None)
    if fastest is None:
        return ""
    label, score = versus.runs[fastest.run].label, numbers.ratio_estimate(fastest.score)
    rank = ", the fastest of the others," if len(versus.standings) > 2 else ""
    return (
        f"{label}{rank} is {score} as fast as {versus.runs[versus.reference].label}, "
        f"by the best variant of {counted(fastest.workloads, 'workload')}."
    )


def _outcomes(versus: Versus) -> str:
    compared = [(result, result.ratio) for result in versus.results if result.ratio is not None]
    if not compared:
        return "No workload was measured in more than one run."
    parts = []
    for outcome in (Outcome.SLOWER, Outcome.FASTER):
        matching = [(each, ratio) for each, ratio in compared if each.outcome is outcome]
        names = [f"{subject(versus, each)} ({numbers.ratio(ratio.median)})" for each, ratio in matching]
        if len(versus.runs) > 2:
            names = list(dict.fromkeys(versus.runs[each.run].label for each, _ in matching))
        if names:
            parts.append(f"{outcome.value}: {some(names)}")
    counts, total = Counter(each.outcome for each, _ in compared), counted(len(compared), "comparison")
    if counts[Outcome.UNKNOWN] == len(compared):
        return "Single trials cannot show a difference."
    for outcome in (Outcome.SAME, Outcome.UNDECIDED, Outcome.UNKNOWN):
        if count := counts[outcome]:
            parts.append(f"{outcome.value}: {total if count == len(compared) else f'{count} of {total}'}")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def warnings(versus: Versus, gate: Gate | None) -> Iterator[str]:
    """Yield warnings about a failed check, copies and runs that are not comparable."""
    if gate is not None and (reasons := failures(versus, gate)):
        yield f"Check failed: {'; '.join(reasons)}."
    for run, original in versus.copies:
        first, copy = versus.runs[original].label, versus.runs[run].label
        yield f"{copy} is the same recording as {first}, so their comparison shows nothing. Give another run."
    groups: dict[Section, list[str]] = {}
    for difference in versus.differences:
        if not difference.comparable:
            groups.setdefault(difference.section, []).append(difference.field)
    for section, fields in groups.items():
        yield f"Not comparable: different {section.value} ({some(fields)})."


def failures(versus: Versus, gate: Gate) -> list[str]:
    """Return why a check failed; [] if it passed."""
    baseline, result = reference_name(versus), []
    if gate.failed:
        slower = f"{len(gate.failed)} of {_checked(versus)} slower"
        result.append(f"{slower} than in {baseline} by {numbers.percent(versus.limit)} or more")
    if gate.missing:
        result.append(f"{counted(len(gate.missing), 'speed')} measured in {baseline} only")
    if gate.is_empty:
        result.append("nothing could be compared: no common measurements, or single trials only")
    if gate.copied:
        copies = some([versus.runs[run].label for run in gate.copied])
        result.append(f"{copies}: the same recording as {baseline}")
    return result


def missing(versus: Versus, gate: Gate | None) -> list[tuple[str, str]]:
    """Return the label of each run that lacks speeds of the baseline, and these speeds."""
    if gate is None:
        return []
    result: dict[str, list[str]] = {}
    for run, key in gate.missing:
        result.setdefault(versus.runs[run].label, []).append(" ".join(key))
    return [(label, ", ".join(keys)) for label, keys in result.items()]


def _checked(versus: Versus) -> str:
    return counted(sum(result.ratio is not None for result in versus.results), "speed")


def notes(versus: Versus, gate: Gate | None) -> list[str]:
    """Return notes about what the runs could show, and incomplete runs."""
    result = [power(versus)] if versus.tests else []
    if gate is not None and gate.open:
        may = (
            f"{len(gate.open)} of {_checked(versus)} may be slower by {numbers.percent(versus.limit)} or more"
        )
        result.append(f"{may}: too few trials or too much noise to decide.")
    groups: dict[str, list[str]] = {}
    for run in versus.runs:
        if reason := _incomplete(run):
            groups.setdefault(reason, []).append(run.label)
    return [*result, *(f"{some(labels)}: {reason}" for reason, labels in groups.items())]


def power(versus: Versus) -> str:
    """Return the smallest differences that the widths of the intervals let the runs show."""
    ratios = [result.ratio for result in versus.results if result.ratio is not None and result.ratio.n > 1]
    shown = [1 - math.sqrt(ratio.low / ratio.high) for ratio in ratios]
    typical, worst = numbers.percent(median(shown)), numbers.percent(max(shown))
    if typical == worst:
        return f"These runs could show a difference of {typical} or more."
    return (
        f"These runs could show a difference of {typical} or more in half of the comparisons, {worst} in all."
    )


def _incomplete(run: Extract) -> str:
    if run.swept:
        return "sweep points are not compared. Open the report of the sweep."
    if not run.speeds:
        return "nothing was measured."
    if run.unfinished:
        return "cut short or still running."
    return "not every trial succeeded." if run.ok < run.planned and not run.adaptive else ""


def method(versus: Versus) -> str:
    """Return how speeds were compared and what the marks mean."""
    together = f", simultaneous for all {versus.tests} comparisons" if versus.tests > 1 else ""
    return (
        f"Speeds are medians of trials; ratios have 95 % intervals{together}. "
        "▲ faster and ▼ slower: the interval excludes 1. ≈ no difference: it includes 1 and no difference of "
        f"{numbers.percent(versus.limit)}. ~ undecided: it includes both. ? one trial."
    )
