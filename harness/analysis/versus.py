"""Many runs against one of them, or against the median of all: speeds, places, differences, trends."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TypeVar

from harness.analysis.comparable import differences, not_comparable, usual_facts
from harness.analysis.independent import LEVEL, Gap, Sample, gap, gap_to, mean_gap, sample
from harness.analysis.kinds import from_kind, kinds, trends
from harness.analysis.measures import Key
from harness.model.analysis import Estimate
from harness.model.comparison import Extract, Interval, Outcome, Result, Speed, Standing, Versus

# With more runs than this, and none named as the baseline, ratios are over medians: a single run's noise
# would be in every one of them.
MANY = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    speed: Speed
    sample: Sample


_Cells = Mapping[Key, _Cell]
_K = TypeVar("_K")


def versus(runs: Sequence[Extract], *, reference: int | None = None) -> Versus:
    """Return runs side by side.

    Args:
        runs: at least one.
        reference: position of the run that ratios are over; None for the first of up to MANY runs, and for
            the medians of more: see Versus.
    """
    if reference is None and len(runs) <= MANY:
        reference = 0
    runs = _with_own_labels(runs)
    cells = [_cells(run) for run in runs]
    gaps = {(run, key): each for run, key, each in _gaps(runs, cells, reference)}
    tests = sum(each.known for each in gaps.values())
    level = LEVEL / max(tests, 1)  # shared evenly, so that all hold together (Dunn 1961)
    usual = usual_facts(runs, reference)
    found = []
    for run, own in enumerate(cells):
        for key, cell in own.items():
            result = Result(run=run, speed=cell.sample.estimate("samples/s"), **key._asdict())
            if (run, key) in gaps:
                result = _judged(result, gaps[run, key], level)
                result = replace(result, not_comparable=not_comparable(runs[run], cell.speed, usual))
            found.append(result)
    standings = _standings(cells, reference)
    means = [{key: math.exp(cell.sample.mean) for key, cell in own.items()} for own in cells]
    return Versus(
        runs=tuple(runs),
        reference=reference,
        results=tuple(found),
        standings=standings,
        kinds=kinds(runs, standings),
        trends=tuple(trends(runs, means)),
        differences=differences(runs),
        tests=tests,
    )


def _with_own_labels(runs: Sequence[Extract]) -> tuple[Extract, ...]:
    """Name each run as the user did, else by its machine where that tells it apart, else by its id."""
    machines = Counter(run.machine for run in runs)
    first = Counter(run.machine.partition(" · ")[0] for run in runs)
    taken: Counter[str] = Counter()
    found = []
    for run in runs:
        label = run.label
        if label == run.run_id and machines[run.machine] == 1:
            short = run.machine.partition(" · ")[0]
            label = short if first[short] == 1 else run.machine
        taken[label] += 1
        found.append(replace(run, label=label if taken[label] == 1 else f"{label} ({taken[label]})"))
    return tuple(found)


def _cells(run: Extract) -> dict[Key, _Cell]:
    found = {}
    for speed in run.speeds:
        made = sample(speed.throughput, adaptive=run.adaptive)
        if made is not None:
            found[Key(speed.workload, speed.device, speed.variant)] = _Cell(speed=speed, sample=made)
    return found


def _gaps(
    runs: Sequence[Extract], cells: Sequence[_Cells], reference: int | None
) -> Iterator[tuple[int, Key, Gap]]:
    if reference is not None:
        for run, own in enumerate(cells):
            for key, cell in own.items():
                if run != reference and key in cells[reference]:
                    yield run, key, gap(cell.sample, cells[reference][key].sample)
        return
    means = [{key: cell.sample.mean for key, cell in own.items()} for own in cells]
    within = from_kind(runs, means)
    middles = _middles(means)
    for run, own in enumerate(cells):
        for key, cell in own.items():
            yield run, key, within(run, key) or gap_to(cell.sample, middles[key])


def _middles(means: Sequence[Mapping[_K, float]]) -> dict[_K, float]:
    """Return the median over runs for every key."""
    found: dict[_K, list[float]] = {}
    for own in means:
        for key, value in own.items():
            found.setdefault(key, []).append(value)
    return {key: median(values) for key, values in found.items()}


def _judged(result: Result, distance: Gap, level: float) -> Result:
    """Return a result with its ratio, and with what the interval of all together says of it."""
    ratio = distance.estimate(level)
    outcome = Outcome.SAME
    if not distance.known:
        outcome = Outcome.UNKNOWN
    elif ratio.low > 1:
        outcome = Outcome.FASTER
    elif ratio.high < 1:
        outcome = Outcome.SLOWER
    return replace(
        result,
        ratio=distance.estimate(),
        joint=Interval(low=ratio.low, high=ratio.high) if distance.known else None,
        outcome=outcome,
        detectable=distance.detectable(level),
    )


def _standings(cells: Sequence[_Cells], reference: int | None) -> tuple[Standing, ...]:
    """Rank the runs by the geometric mean of their best speeds over the reference's best, the fastest first."""
    fastest = [_fastest(own) for own in cells]
    middles = _middles([{name: each.mean for name, each in own.items()} for own in fastest])
    found = []
    for run, own in enumerate(fastest):
        if reference is None:
            gaps = [gap_to(each, middles[name]) for name, each in own.items()]
        else:
            base = fastest[reference]
            gaps = [gap(each, base[name]) for name, each in own.items() if name in base]
        if gaps:
            # The reference's own ratio is 1 by definition, with nothing to be uncertain of.
            one = Estimate(median=1.0, low=1.0, high=1.0, n=1, unit="ratio")
            score = one if run == reference else mean_gap(gaps).estimate()
            found.append(Standing(run=run, score=score, workloads=len(gaps)))
    return tuple(sorted(found, key=lambda standing: -standing.score.median))


def _fastest(own: _Cells) -> dict[str, Sample]:
    """Return each workload's fastest device and variant; the speed of what does not learn is none."""
    found: dict[str, Sample] = {}
    for key, cell in own.items():
        if cell.speed.learned is False:
            continue
        if key.workload not in found or cell.sample.mean > found[key.workload].mean:
            found[key.workload] = cell.sample
    return found
