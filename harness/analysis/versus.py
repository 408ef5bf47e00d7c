"""Compare runs with a reference: speeds, standings, what makes them incomparable, and the check in CI."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from harness.analysis.extract import batch_field
from harness.analysis.ratios import LEVEL, LogDifference, LogSample, gap, mean_gap, sample
from harness.intervals import estimate, usual_by_kind
from harness.model.analysis import RELIABLE_WIDTH, Estimate, Key
from harness.model.comparison import (
    Difference,
    Extract,
    Facts,
    Gate,
    Outcome,
    Result,
    RunScore,
    Section,
    Speed,
    Versus,
)
from harness.model.device import device_kind, is_gpu
from harness.model.platform import target_for
from harness.model.workload import BESIDE
from workloads.protocol import TENSORFLOW, TREES
from workloads.variants import BASELINE

_Samples = Mapping[Key, LogSample]


def versus(runs: Sequence[Extract], *, reference: int = 0, limit: float = RELIABLE_WIDTH) -> Versus:
    """Compare runs.

    Args:
        reference: position of the reference run.
        limit: the smallest relative loss of speed that matters, as a share.
    """
    runs = _with_unique_labels(runs)
    usual = [usual_by_kind((each.device, each.throughput) for each in run.speeds) for run in runs]
    samples = [
        {
            each.key: logs
            for each in run.speeds
            if (logs := sample(each.throughput, spreads[device_kind(each.device)], adaptive=run.adaptive))
        }
        for run, spreads in zip(runs, usual, strict=True)
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
        measured = tuple(
            replace(speed, cost_per_million=None, breakdown=None, finding=None) for speed in each.speeds
        )
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
    gaps: Mapping[tuple[int, Key], LogDifference],
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


def _standings(runs: Sequence[Extract], samples: Sequence[_Samples], reference: int) -> tuple[RunScore, ...]:
    """Rank the runs by the geometric mean of their best speeds / the reference's best, fastest first."""
    fastest = [_fastest(run, by_key) for run, by_key in zip(runs, samples, strict=True)]
    base = fastest[reference]
    result = []
    for run, by_workload in enumerate(fastest):
        if gaps := [gap(each, base[name]) for name, each in by_workload.items() if name in base]:
            # The ratio of the reference to itself is exactly 1.
            score = Estimate.exact(1.0, "ratio") if run == reference else mean_gap(gaps).estimate()
            result.append(RunScore(run=run, score=score, workloads=len(gaps)))
    return tuple(sorted(result, key=lambda standing: -standing.score.median))


def _fastest(run: Extract, samples: _Samples) -> dict[str, LogSample]:
    """Return the fastest device and variant of each workload, without models that do not learn."""
    result: dict[str, LogSample] = {}
    for speed in run.speeds:
        logs = samples.get(speed.key)
        if logs is None or speed.learned is False:
            continue
        if speed.workload not in result or logs.median > result[speed.workload].median:
            result[speed.workload] = logs
    return result


# Sections in which any difference makes speeds not comparable.
_DECISIVE = frozenset({Section.IMAGES, Section.DATA, Section.DRIVER, Section.WORKLOADS, Section.SETTINGS})
# The same for fields of the software section, by image family. Other software is part of the machine.
_FRAMEWORKS: Mapping[str, tuple[str, ...]] = {TENSORFLOW: ("tensorflow", "keras"), TREES: ("xgboost",)}
_COMMON = ("isolated", "tfbench")
_SOFTWARE = frozenset((*_COMMON, *(name for names in _FRAMEWORKS.values() for name in names)))
# Settings that decide only how often, and what else, is measured.
_HARMLESS = frozenset({"trials", "max_trials", "target_interval", "variants", "analysis"})


def differences(runs: Sequence[Extract]) -> tuple[Difference, ...]:
    """Return the fields that are known for all runs and differ, by section."""
    result = []
    for section in Section:
        first = runs[0].facts.get(section, {}) if runs else {}
        for name in first:
            values = tuple(run.facts.get(section, {}).get(name, "") for run in runs)
            if all(values) and len(set(values)) > 1:
                comparable = not _is_decisive(section, name)
                result.append(Difference(section=section, field=name, values=values, comparable=comparable))
    return tuple(result)


def not_comparable(run: Extract, speed: Speed, reference: Facts) -> tuple[Section, ...]:
    """Return the sections that make a speed of a run not comparable with a run with facts `reference`.

    Only fields known on both sides count.
    """
    image, gpu = run.images.get(speed.workload, TENSORFLOW), is_gpu(speed.device)
    fields = [(Section.IMAGES, target_for(image, gpu=gpu)), (Section.DATA, speed.workload)]
    fields += [(Section.SOFTWARE, name) for name in (*_FRAMEWORKS.get(image, ()), *_COMMON)]
    fields += [(Section.SETTINGS, name) for name in run.facts.get(Section.SETTINGS, {})]
    names = (f"declaration of {speed.workload}", f"Python files of {speed.workload}", "package workloads")
    fields += [(Section.WORKLOADS, name) for name in names]
    if speed.variant == BASELINE:
        fields.append((Section.WORKLOADS, batch_field(speed.workload, speed.device)))
    if gpu:
        fields.append((Section.DRIVER, "driver_version"))
    result = []
    for section, name in fields:
        values = [facts.get(section, {}).get(name, "") for facts in (run.facts, reference)]
        if _is_decisive(section, name) and all(values) and values[0] != values[1]:
            result.append(section)
    return tuple(dict.fromkeys(result))


def _is_decisive(section: Section, name: str) -> bool:
    if section is Section.SOFTWARE:
        return name in _SOFTWARE
    return section in _DECISIVE and name not in _HARMLESS and not name.startswith(BESIDE)


def gate(versus: Versus) -> Gate:
    """Check every ratio of a comparison, whose reference is the baseline.

    The intervals are simultaneous at 95 %, so in at most 2.5 % of cases a speed fails that lost less than the limit.
    """
    bound = 1 - versus.limit
    ratios = [(each, each.ratio) for each in versus.results if each.ratio is not None]
    return Gate(
        failed=tuple(each for each, ratio in ratios if ratio.n > 1 and ratio.high <= bound),
        open=tuple(each for each, ratio in ratios if ratio.n < 2 or ratio.low <= bound < ratio.high),
        missing=tuple(_missing(versus)),
        is_empty=not any(ratio.n > 1 for _, ratio in ratios),
        copied=tuple(run for run, original in versus.copies if original == versus.reference),
    )


def _missing(versus: Versus) -> Iterator[tuple[int, Key]]:
    """Yield baseline keys that a run lacks, so that a failed workload does not pass unnoticed.

    A run that planned only other workloads, such as a machine that ships with tfbench, lacks nothing.
    """
    wanted = [each.key for each in versus.runs[versus.reference].speeds]
    for position, run in enumerate(versus.runs):
        if any(key.workload in run.titles for key in wanted):
            measured = {each.key for each in run.speeds}
            yield from ((position, key) for key in wanted if key not in measured)
