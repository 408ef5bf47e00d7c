"""Compare several runs with a reference: speeds, standings, differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from harness.analysis.comparable import differences, not_comparable
from harness.analysis.ratios import LEVEL, Gap, Sample, gap, mean_gap, sample
from harness.analysis.stats import estimate
from harness.model.analysis import RELIABLE_WIDTH, Estimate, Key
from harness.model.comparison import Extract, Outcome, Result, Speed, Standing, Versus

_Samples = Mapping[Key, Sample]


def versus(runs: Sequence[Extract], *, reference: int = 0, limit: float = RELIABLE_WIDTH) -> Versus:
    """Compare runs.

    Args:
        runs: at least one.
        reference: position of the reference run.
        limit: the smallest relative loss of speed that matters, as a share.
    """
    runs = _with_unique_labels(runs)
    samples = [
        {each.key: logs for each in run.speeds if (logs := sample(each.throughput, adaptive=run.adaptive))}
        for run in runs
    ]
    gaps = {
        (run, key): gap(logs, base)
        for run, by_key in enumerate(samples)
        for key, logs in by_key.items()
        if run != reference and (base := samples[reference].get(key))
    }
    tests = sum(each.n > 1 for each in gaps.values())
    results = tuple(_results(runs, samples, gaps, reference=reference, tests=tests, limit=limit))
    return Versus(
        runs=runs,
        reference=reference,
        results=results,
        standings=_standings(runs, samples, reference),
        differences=differences(runs),
        tests=tests,
        limit=limit,
        copies=tuple(_copies(runs)),
    )


def _copies(runs: Sequence[Extract]) -> Iterator[tuple[int, int]]:
    """Yield (position of a run, position of an earlier run with exactly the same measurements)."""
    first: dict[tuple[Speed, ...], int] = {}
    for run, each in enumerate(runs):
        measured = tuple(replace(speed, cost_per_million=None) for speed in each.speeds)
        if measured and (original := first.setdefault(measured, run)) != run:
            yield run, original


def _with_unique_labels(runs: Sequence[Extract]) -> tuple[Extract, ...]:
    """Label each run as given, else by its machine if that is unique, else by its id."""
    machines = Counter(run.machine for run in runs)
    first = Counter(run.machine.partition(" · ")[0] for run in runs)
    used: Counter[str] = Counter()
    result = []
    for run in runs:
        label = run.label
        if label == run.run_id and machines[run.machine] == 1:
            short = run.machine.partition(" · ")[0]
            label = short if first[short] == 1 else run.machine
        used[label] += 1
        result.append(replace(run, label=label if used[label] == 1 else f"{label} ({used[label]})"))
    return tuple(result)


def _results(
    runs: Sequence[Extract],
    samples: Sequence[_Samples],
    gaps: Mapping[tuple[int, Key], Gap],
    *,
    reference: int,
    tests: int,
    limit: float,
) -> Iterator[Result]:
    level = LEVEL / max(tests, 1)  # Bonferroni correction (Dunn 1961)
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
                    outcome=_outcome(ratio, 1 - limit),
                    not_comparable=not_comparable(extract, each, runs[reference].facts),
                )
            yield result


def _outcome(ratio: Estimate, bound: float) -> Outcome:
    """Return the conclusion from a ratio; `bound` and its inverse are the nearest ratios that matter."""
    if ratio.n < 2:
        return Outcome.UNKNOWN
    if ratio.low > 1:
        return Outcome.FASTER
    if ratio.high < 1:
        return Outcome.SLOWER
    return Outcome.SAME if bound < ratio.low and ratio.high < 1 / bound else Outcome.UNDECIDED


def _standings(runs: Sequence[Extract], samples: Sequence[_Samples], reference: int) -> tuple[Standing, ...]:
    """Rank the runs by the geometric mean of their best speeds / the reference's best, fastest first."""
    fastest = [_fastest(run, by_key) for run, by_key in zip(runs, samples, strict=True)]
    base = fastest[reference]
    result = []
    for run, by_workload in enumerate(fastest):
        if gaps := [gap(each, base[name]) for name, each in by_workload.items() if name in base]:
            # The ratio of the reference to itself is exactly 1.
            unity = Estimate(median=1.0, low=1.0, high=1.0, n=1, unit="ratio")
            score = unity if run == reference else mean_gap(gaps).estimate()
            result.append(Standing(run=run, score=score, workloads=len(gaps)))
    return tuple(sorted(result, key=lambda standing: -standing.score.median))


def _fastest(run: Extract, samples: _Samples) -> dict[str, Sample]:
    """Return the fastest device and variant of each workload, without models that do not learn."""
    result: dict[str, Sample] = {}
    for speed in run.speeds:
        logs = samples.get(speed.key)
        if logs is None or speed.learned is False:
            continue
        if speed.workload not in result or logs.median > result[speed.workload].median:
            result[speed.workload] = logs
    return result
