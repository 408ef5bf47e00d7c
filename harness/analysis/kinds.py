"""Runs by the kind of machine: how a kind does, how far its machines lie apart, and who falls out of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median

from harness.analysis.independent import Gap
from harness.analysis.measures import Key
from harness.analysis.stats import estimate, variation
from harness.model.comparison import Extract, Kind, Standing

# A median of fewer says nothing of any one of them.
FEW = 3
# Machines of a kind whose spread can be told; with fewer, a run is compared by the noise of its trials.
KIN = 5
MAD_TO_SIGMA = 1.4826
MAD_EFFICIENCY = 0.37


def kinds(runs: Sequence[Extract], standings: Sequence[Standing]) -> tuple[Kind, ...]:
    """Return the kinds of machine of the runs that stand somewhere, the fastest first."""
    groups: dict[str, list[Standing]] = {}
    for one in standings:
        groups.setdefault(runs[one.run].machine, []).append(one)
    found = []
    for machine, own in groups.items():
        scores = [one.score.median for one in own]
        score = estimate(scores, "ratio")
        assert score is not None  # a group has at least one
        found.append(
            Kind(
                machine=machine,
                runs=tuple(one.run for one in own),
                score=own[0].score if len(own) == 1 else score,
                spread=variation(scores) if len(scores) >= FEW else None,
            )
        )
    return tuple(sorted(found, key=lambda one: -one.score.median))


def from_kind(
    runs: Sequence[Extract], means: Sequence[Mapping[Key, float]]
) -> Callable[[int, Key], Gap | None]:
    """Return what gives how far a run lies from the median of its kind, on the scale of the kind's spread.

    The unit is the machine: what one differs from the next, noise of trials within, is the scale, so that a
    run counts as slower only when it falls out of its kind. It is the median absolute deviation
    (Hampel 1974), which machines that fall out do not widen; having but MAD_EFFICIENCY of the standard
    deviation's efficiency, it has as many degrees of freedom fewer.

    Args:
        means: for each run its mean logarithm by workload, device and variant.
    """
    groups: dict[tuple[str, Key], list[float]] = {}
    for run, own in zip(runs, means, strict=True):
        for key, value in own.items():
            groups.setdefault((run.machine, key), []).append(value)
    spreads = {group: _spread(values) for group, values in groups.items() if len(values) >= KIN}

    def gap(run: int, key: Key) -> Gap | None:
        found = spreads.get((runs[run].machine, key))
        if found is None:
            return None
        return replace(found, log=means[run][key] - found.log)

    return gap


def _spread(values: Sequence[float]) -> Gap:
    """Return a kind's median as `log`, and its scale as `error`."""
    middle = median(values)
    deviation = MAD_TO_SIGMA * median(abs(value - middle) for value in values)
    return Gap(log=middle, error=deviation, degrees=MAD_EFFICIENCY * (len(values) - 1), n=len(values))
