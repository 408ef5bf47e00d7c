"""Many runs against one of them, or against the median of all: speeds, places, differences, trends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import TypeVar

from harness.analysis.comparable import differences, not_comparable, usual_facts
from harness.analysis.kinds import from_kind, kinds, trends
from harness.analysis.ratios import LEVEL, Gap, Sample, gap, gap_to, mean_gap, sample
from harness.analysis.stats import estimate
from harness.model.analysis import Estimate, Key
from harness.model.comparison import Extract, Outcome, Result, Standing, Versus

# With more runs than this, and none named as the baseline, ratios are over medians: a single run's noise
# would be in every one of them.
MANY = 20

_Samples = Mapping[Key, Sample]
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
    samples = [
        {each.key: made for each in run.speeds if (made := sample(each.throughput, adaptive=run.adaptive))}
        for run in runs
    ]
    gaps = dict(_gaps(runs, samples, reference))
    tests = sum(each.n > 1 for each in gaps.values())
    standings = _standings(runs, samples, reference)
    results = tuple(_results(runs, samples, gaps, usual=reference, tests=tests))
    return Versus(
        runs=runs,
        reference=reference,
        results=results,
        standings=standings,
        kinds=kinds(runs, standings),
        trends=tuple(trends(runs, results)),
        differences=differences(runs),
        tests=tests,
    )


def _with_own_labels(runs: Sequence[Extract]) -> tuple[Extract, ...]:
    """Name each run as the user did, else by its machine where that tells it apart, else by its id."""
    machines = Counter(run.machine for run in runs)
    first = Counter(run.machine.partition(" · ")[0] for run in runs)
    taken: Counter[str] = Counter()
    result = []
    for run in runs:
        label = run.label
        if label == run.run_id and machines[run.machine] == 1:
            short = run.machine.partition(" · ")[0]
            label = short if first[short] == 1 else run.machine
        taken[label] += 1
        result.append(replace(run, label=label if taken[label] == 1 else f"{label} ({taken[label]})"))
    return tuple(result)


def _gaps(
    runs: Sequence[Extract], samples: Sequence[_Samples], reference: int | None
) -> Iterator[tuple[tuple[int, Key], Gap]]:
    within = from_kind(runs, samples) if reference is None else None
    middles = _middles(samples)
    for run, own in enumerate(samples):
        for key, made in own.items():
            if within is not None:
                yield (run, key), within(run, key) or gap_to(made, middles[key])
            elif run != reference and (base := samples[reference or 0].get(key)):
                yield (run, key), gap(made, base)


def _middles(samples: Sequence[Mapping[_K, Sample]]) -> dict[_K, float]:
    """Return the median over runs for every key."""
    result: dict[_K, list[float]] = {}
    for own in samples:
        for key, made in own.items():
            result.setdefault(key, []).append(made.median)
    return {key: median(values) for key, values in result.items()}


def _results(
    runs: Sequence[Extract],
    samples: Sequence[_Samples],
    gaps: Mapping[tuple[int, Key], Gap],
    *,
    usual: int | None,
    tests: int,
) -> Iterator[Result]:
    facts = usual_facts(runs, usual)
    level = LEVEL / max(tests, 1)  # shared evenly, so that all hold together (Dunn 1961)
    for run, extract in enumerate(runs):
        for each in extract.speeds:
            speed = estimate(each.throughput, "samples/s")
            if speed is None or each.key not in samples[run]:
                continue
            result = Result(run=run, speed=speed, **each.key._asdict())
            if distance := gaps.get((run, each.key)):
                ratio = distance.estimate(level)
                result = replace(
                    result,
                    ratio=ratio,
                    outcome=_outcome(ratio),
                    not_comparable=not_comparable(extract, each, facts),
                )
            yield result


def _outcome(ratio: Estimate) -> Outcome:
    if ratio.n < 2:
        return Outcome.UNKNOWN
    if ratio.low > 1:
        return Outcome.FASTER
    return Outcome.SLOWER if ratio.high < 1 else Outcome.SAME


def _standings(
    runs: Sequence[Extract], samples: Sequence[_Samples], reference: int | None
) -> tuple[Standing, ...]:
    """Rank the runs by the geometric mean of their best speeds over the reference's best, the fastest first."""
    fastest = [_fastest(run, own) for run, own in zip(runs, samples, strict=True)]
    middles = _middles(fastest)
    result = []
    for run, own in enumerate(fastest):
        if reference is None:
            gaps = [gap_to(each, middles[name]) for name, each in own.items()]
        else:
            base = fastest[reference]
            gaps = [gap(each, base[name]) for name, each in own.items() if name in base]
        if gaps:
            # The reference's own ratio is 1 by definition, with nothing to be uncertain of.
            itself = Estimate(median=1.0, low=1.0, high=1.0, n=1, unit="ratio")
            score = itself if run == reference else mean_gap(gaps).estimate()
            result.append(Standing(run=run, score=score, workloads=len(gaps)))
    return tuple(sorted(result, key=lambda standing: -standing.score.median))


def _fastest(run: Extract, samples: _Samples) -> dict[str, Sample]:
    """Return each workload's fastest device and variant; the speed of what does not learn is none."""
    result: dict[str, Sample] = {}
    for speed in run.speeds:
        made = samples.get(speed.key)
        if made is None or speed.learned is False:
            continue
        if speed.workload not in result or made.median > result[speed.workload].median:
            result[speed.workload] = made
    return result
