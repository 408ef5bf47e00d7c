"""Runs by the kind of machine: how a kind does, who falls out of it, and one machine through time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import mean, median, stdev

from harness.analysis.caveats import DRIFT_CHANGE, DRIFT_P
from harness.analysis.ratios import Gap, Sample
from harness.analysis.stats import drift, estimate
from harness.model.analysis import Key
from harness.model.comparison import Extract, Kind, Result, Standing, Trend

# A median of fewer says nothing of any one of them.
FEW = 3
# Machines of a kind whose spread can be told; with fewer, a run is compared by the noise of its trials.
ENOUGH_MACHINES = 5
# Runs of one machine that make a trend.
ENOUGH_RUNS = 6
MAD_TO_SIGMA = 1.4826
MAD_EFFICIENCY = 0.37


def kinds(runs: Sequence[Extract], standings: Sequence[Standing]) -> tuple[Kind, ...]:
    """Return the kinds of machine of the runs that stand somewhere, the fastest first."""
    groups: dict[str, list[Standing]] = {}
    for each in standings:
        groups.setdefault(runs[each.run].machine, []).append(each)
    result = []
    for machine, own in groups.items():
        scores = [each.score.median for each in own]
        score = estimate(scores, "ratio")
        assert score is not None
        result.append(
            Kind(
                machine=machine,
                runs=tuple(each.run for each in own),
                score=own[0].score if len(own) == 1 else score,
                spread=stdev(scores) / mean(scores) if len(scores) >= FEW else None,
            )
        )
    return tuple(sorted(result, key=lambda kind: -kind.score.median))


def from_kind(
    runs: Sequence[Extract], samples: Sequence[Mapping[Key, Sample]]
) -> Callable[[int, Key], Gap | None]:
    """Return what gives how far a run lies from the median of its kind, on the scale of the kind's spread.

    The unit is the machine: a run counts as slower only when it falls out of its kind. The scale is the
    median absolute deviation (Hampel 1974), which machines that fall out do not widen; having but
    MAD_EFFICIENCY of the standard deviation's efficiency, it has as many degrees of freedom fewer.
    """
    groups: dict[tuple[str, Key], list[Sample]] = {}
    for run, own in zip(runs, samples, strict=True):
        for key, made in own.items():
            groups.setdefault((run.machine, key), []).append(made)
    spreads = {group: _spread(values) for group, values in groups.items() if len(values) >= ENOUGH_MACHINES}

    def gap(run: int, key: Key) -> Gap | None:
        result = spreads.get((runs[run].machine, key))
        if result is None:
            return None
        made = samples[run][key]
        return replace(result, mean=made.mean - result.mean, median=made.median - result.median)

    return gap


def _spread(samples: Sequence[Sample]) -> Gap:
    """Return the median over a kind of its runs' means and of their medians, and its scale as `error`."""
    middle = median(each.mean for each in samples)
    return Gap(
        mean=middle,
        median=median(each.median for each in samples),
        error=MAD_TO_SIGMA * median(abs(each.mean - middle) for each in samples),
        degrees=MAD_EFFICIENCY * (len(samples) - 1),
        n=len(samples),
    )


def trends(runs: Sequence[Extract], results: Sequence[Result]) -> Iterator[Trend]:
    """Yield a trend for each workload, device and variant of machines with enough runs.

    Runs of one kind of machine count as one machine's where none began before the one before it ended.
    """
    speeds: dict[Key, dict[int, float]] = {}
    for each in results:
        speeds.setdefault(each.key, {})[each.run] = each.speed.median
    for machine in dict.fromkeys(run.machine for run in runs):
        own = sorted(
            (at for at, run in enumerate(runs) if run.machine == machine), key=lambda at: runs[at].created
        )
        if len(own) < ENOUGH_RUNS or any(_overlap(runs[item], runs[two]) for item, two in pairwise(own)):
            continue
        for key, of_run in speeds.items():
            shown = tuple(at for at in own if at in of_run)
            if len(shown) >= ENOUGH_RUNS:
                result = drift([of_run[at] for at in shown])
                real = result is not None and result.p < DRIFT_P and abs(result.change) > DRIFT_CHANGE
                change = result.change if result is not None and real else None
                yield Trend(machine=machine, runs=shown, change=change, **key._asdict())


def _overlap(each: Extract, two: Extract) -> bool:
    try:
        begins = [datetime.fromisoformat(run.created) for run in (each, two)]
        return begins[0] + timedelta(seconds=each.duration_s) > begins[1]
    except (TypeError, ValueError):  # no time, or one with and one without a zone
        return True
