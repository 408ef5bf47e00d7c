"""Runs by the kind of machine: how a kind does, who falls out of it, and one machine through time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median

from harness.analysis.caveats import DRIFT_CHANGE, DRIFT_P
from harness.analysis.independent import Gap
from harness.analysis.measures import Key
from harness.analysis.stats import drift, estimate, variation
from harness.model.comparison import Extract, Kind, Standing, Trend

# A median of fewer says nothing of any one of them.
FEW = 3
# Machines of a kind whose spread can be told; with fewer, a run is compared by the noise of its trials.
ENOUGH_MACHINES = 5
# Runs of one machine that make a trend.
ENOUGH_RUNS = 6
MAD_TO_SIGMA = 1.4826
MAD_EFFICIENCY = 0.37

# Mean logarithm of speed by workload, device and variant.
Means = Mapping[Key, float]


def kinds(runs: Sequence[Extract], standings: Sequence[Standing]) -> tuple[Kind, ...]:
    """Return the kinds of machine of the runs that stand somewhere, the fastest first."""
    groups: dict[str, list[Standing]] = {}
    for each in standings:
        groups.setdefault(runs[each.run].machine, []).append(each)
    found = []
    for machine, own in groups.items():
        scores = [each.score.median for each in own]
        score = estimate(scores, "ratio")
        assert score is not None
        found.append(
            Kind(
                machine=machine,
                runs=tuple(each.run for each in own),
                score=own[0].score if len(own) == 1 else score,
                spread=variation(scores) if len(scores) >= FEW else None,
            )
        )
    return tuple(sorted(found, key=lambda kind: -kind.score.median))


def from_kind(runs: Sequence[Extract], means: Sequence[Means]) -> Callable[[int, Key], Gap | None]:
    """Return what gives how far a run lies from the median of its kind, on the scale of the kind's spread.

    The unit is the machine: a run counts as slower only when it falls out of its kind. The scale is the
    median absolute deviation (Hampel 1974), which machines that fall out do not widen; having but
    MAD_EFFICIENCY of the standard deviation's efficiency, it has as many degrees of freedom fewer.
    """
    groups: dict[tuple[str, Key], list[float]] = {}
    for run, own in zip(runs, means, strict=True):
        for key, value in own.items():
            groups.setdefault((run.machine, key), []).append(value)
    spreads = {group: _spread(values) for group, values in groups.items() if len(values) >= ENOUGH_MACHINES}

    def gap(run: int, key: Key) -> Gap | None:
        found = spreads.get((runs[run].machine, key))
        return None if found is None else replace(found, log=means[run][key] - found.log)

    return gap


def _spread(values: Sequence[float]) -> Gap:
    """Return a kind's median as `log`, and its scale as `error`."""
    middle = median(values)
    deviation = MAD_TO_SIGMA * median(abs(value - middle) for value in values)
    return Gap(log=middle, error=deviation, degrees=MAD_EFFICIENCY * (len(values) - 1), n=len(values))


def trends(runs: Sequence[Extract], speeds: Sequence[Mapping[Key, float]]) -> Iterator[Trend]:
    """Yield a trend for each workload, device and variant of machines with enough runs.

    Runs of one kind of machine count as one machine's where none began before the one before it ended.

    Args:
        speeds: of each run, by workload, device and variant.
    """
    for machine in dict.fromkeys(run.machine for run in runs):
        own = sorted(
            (at for at, run in enumerate(runs) if run.machine == machine), key=lambda at: runs[at].created
        )
        if len(own) < ENOUGH_RUNS or any(_overlap(runs[one], runs[two]) for one, two in pairwise(own)):
            continue
        for key in dict.fromkeys(key for at in own for key in speeds[at]):
            shown = tuple(at for at in own if key in speeds[at])
            if len(shown) >= ENOUGH_RUNS:
                found = drift([speeds[at][key] for at in shown])
                real = found is not None and found.p < DRIFT_P and abs(found.change) > DRIFT_CHANGE
                change = found.change if found is not None and real else None
                yield Trend(machine=machine, runs=shown, change=change, **key._asdict())


def _overlap(one: Extract, two: Extract) -> bool:
    try:
        begins = [datetime.fromisoformat(run.created) for run in (one, two)]
        return begins[0] + timedelta(seconds=one.duration_s) > begins[1]
    except (TypeError, ValueError):  # no time, or one with and one without a zone
        return True
