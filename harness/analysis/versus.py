"""Many runs against one of them, or against the median of all: speeds, places, differences, warnings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TypeVar

from harness.analysis.independent import LEVEL, Gap, Sample, gap, gap_to, mean_gap, sample, trials_needed
from harness.analysis.kinds import from_kind, kinds
from harness.analysis.measures import Key
from harness.analysis.unlike import Alike, differences, unlikes
from harness.analysis.versus_words import caution, headline
from harness.analysis.words import listed
from harness.model.analysis import Estimate
from harness.model.comparison import Best, Extract, Joint, Outcome, Ratio, Speed, Standing, Versus
from harness.rounding import counted
from workloads.protocol import BASELINE, TUNED

# The variants that answer a buyer's question; the others say why, and are not tested.
TESTED = (BASELINE, TUNED)
# With more runs than this, and none named as the baseline, ratios are over medians: a single run's noise
# would be in every one of them.
MANY = 20
TARGET = 0.05
# Why a sweep's points have no speed among a run's.
SWEPT = (
    "the points of a sweep take no part in comparisons, since each runs with other parameters than the "
    "workload's own; the sweep's report has their speeds"
)
_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cell:
    speed: Speed
    sample: Sample


_Cells = Mapping[Key, _Cell]
_K = TypeVar("_K")


def versus(runs: Sequence[Extract], *, reference: int | None = None, target: float = TARGET) -> Versus:
    """Return runs side by side.

    Args:
        runs: at least one.
        reference: position of the run that ratios are over; None for the first of up to MANY runs, and for
            the medians of more: see Versus.
        target: the slowdown, as a share, for which to say how many trials would find it.
    """
    if reference is None and len(runs) <= MANY:
        reference = 0
    runs = _with_own_labels(runs)
    cells = [_cells(run) for run in runs]
    fixed = cells[reference] if reference is not None else {}
    gaps = list(_gaps(runs, cells, reference))
    tests = sum(one.known and key.variant in TESTED for _, key, one in gaps)
    alike = Alike(runs, reference)
    found, same = differences(runs)
    bests = tuple(_bests(cells, reference))
    standings = _standings(bests, reference)
    made = Versus(
        runs=tuple(runs),
        reference=reference,
        ratios=tuple(
            _ratio(run, key, one, cells[run][key], fixed.get(key), alike, tests, target)
            for run, key, one in gaps
        ),
        bests=tuple(best for best, _ in bests),
        standings=standings,
        kinds=kinds(runs, standings),
        differences=found,
        unlikes=unlikes(runs, found),
        tests=tests,
        same=same,
        target=target,
        notes=tuple(_notes(runs)),
    )
    return replace(made, headline=headline(made), caution=caution(made))


def _with_own_labels(runs: Sequence[Extract]) -> tuple[Extract, ...]:
    """Tell runs of one label apart: a page names runs by nothing else."""
    seen: dict[str, int] = {}
    found = []
    for run in runs:
        seen[run.label] = seen.get(run.label, 0) + 1
        count = seen[run.label]
        found.append(run if count == 1 else replace(run, label=f"{run.label} ({count})"))
    return tuple(found)


def _cells(run: Extract) -> dict[Key, _Cell]:
    found = {}
    for one in run.speeds:
        made = sample(one.throughput, adaptive=run.adaptive)
        if made is not None:
            found[Key(one.workload, one.device, one.variant)] = _Cell(speed=one, sample=made)
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


def _ratio(
    run: int,
    key: Key,
    one: Gap,
    cell: _Cell,
    other: _Cell | None,
    alike: Alike,
    tests: int,
    target: float,
) -> Ratio:
    """Judge one ratio; tested ones share LEVEL evenly, so that all hold together (Dunn 1961)."""
    tested = key.variant in TESTED
    level = LEVEL / max(tests, 1)
    joint = one.estimate(level) if one.known and tested else None
    return Ratio(
        run=run,
        workload=key.workload,
        device=key.device,
        variant=key.variant,
        speed=math.exp(cell.sample.mean),
        ratio=one.estimate(),
        joint=Joint(low=joint.low, high=joint.high) if joint else None,
        outcome=_outcome(one.estimate(level)) if tested else Outcome.UNTESTED,
        detectable=one.detectable(level) if tested else None,
        trials_needed=trials_needed(one, target, level) if tested and other else None,
        unlike=alike.subjects(run, cell.speed, other.speed if other else None),
        tested=tested,
    )


def _outcome(ratio: Estimate) -> Outcome:
    if ratio.n < 2:
        return Outcome.UNKNOWN
    if ratio.low > 1:
        return Outcome.FASTER
    return Outcome.SLOWER if ratio.high < 1 else Outcome.SAME


def _bests(cells: Sequence[_Cells], reference: int | None) -> Iterator[tuple[Best, Gap]]:
    """Yield each run's fastest device and variant of every workload, over the reference's fastest."""
    fastest = [_fastest(own) for own in cells]
    centre = _middles([{name: cell.sample.mean for name, cell in own.items()} for own in fastest])
    for run, own in enumerate(fastest):
        for name, cell in own.items():
            if reference is None:
                one = gap_to(cell.sample, centre[name])
            elif name in fastest[reference]:
                one = gap(cell.sample, fastest[reference][name].sample)
            else:
                continue
            yield _best(run, cell, one, itself=run == reference), one


def _fastest(own: _Cells) -> dict[str, _Cell]:
    """Leave out what did not learn: speed that trains nothing is none."""
    found: dict[str, _Cell] = {}
    for key, cell in own.items():
        if key.variant not in TESTED or cell.speed.accuracy_ok is False:
            continue
        if key.workload not in found or cell.sample.mean > found[key.workload].sample.mean:
            found[key.workload] = cell
    return found


def _best(run: int, cell: _Cell, one: Gap, *, itself: bool) -> Best:
    return Best(
        run=run,
        workload=cell.speed.workload,
        device=cell.speed.device,
        variant=cell.speed.variant,
        speed=math.exp(cell.sample.mean),
        ratio=_one() if itself else one.estimate(),
        energy_j_per_sample=cell.speed.energy_j_per_sample,
        energy_source=cell.speed.energy_source,
        cost_per_million=cell.speed.cost_per_million,
    )


def _standings(bests: Sequence[tuple[Best, Gap]], reference: int | None) -> tuple[Standing, ...]:
    """Rank the runs by the geometric mean of their best speeds' ratios, the fastest first."""
    groups: dict[int, list[Gap]] = {}
    for best, one in bests:
        groups.setdefault(best.run, []).append(one)
    found = []
    for run, gaps in groups.items():
        score = mean_gap(gaps).estimate() if run != reference else _one()
        found.append(Standing(run=run, score=score, workloads=len(gaps)))
    return tuple(sorted(found, key=lambda one: -one.score.median))


def _one() -> Estimate:
    """Return the reference's own ratio: 1 by definition, with nothing to be uncertain of."""
    return Estimate(median=1.0, low=1.0, high=1.0, n=1, unit="ratio")


def _notes(runs: Sequence[Extract]) -> Iterator[str]:
    swept = [f"{run.label} ({counted(run.swept, 'point')})" for run in runs if run.swept]
    if swept:
        more = [f"{len(swept) - _NAMED} more"] if len(swept) > _NAMED else []
        yield f"{listed([*swept[:_NAMED], *more])}: {SWEPT}."
    for run in runs:
        if run.swept and not run.speeds:
            continue
        if not run.speeds:
            yield f"{run.label}: nothing was measured."
        elif run.unfinished:
            yield f"{run.label}: still being measured or cut short, {_ended(run)}."
        elif run.ok < run.planned and not run.adaptive:
            yield f"{run.label}: {_ended(run)}."


def _ended(run: Extract) -> str:
    return f"{run.ok} of {counted(run.planned, 'planned trial')} ended well"
