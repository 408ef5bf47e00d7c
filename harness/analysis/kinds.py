"""Runs by the kind of machine: how a kind does, how far its machines lie apart, and who falls out of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from harness.analysis.stats import estimate, spread
from harness.comparison_model import Extract, Kind, Ratio, Standing

# A median of fewer says nothing of any one of them.
FEW = 3


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
                spread=spread(scores).cv if len(scores) >= FEW else None,
            )
        )
    return tuple(sorted(found, key=lambda one: -one.score.median))


def with_medians_of_kinds(runs: Sequence[Extract], ratios: Sequence[Ratio]) -> tuple[Ratio, ...]:
    """Return the ratios with each speed also over the median of its kind."""
    groups: dict[tuple[str, str, str, str], list[float]] = {}
    for one in ratios:
        groups.setdefault(_group(runs, one), []).append(one.speed)
    middles = {key: median(speeds) for key, speeds in groups.items() if len(speeds) >= FEW}
    return tuple(
        replace(one, within=one.speed / middles[key]) if (key := _group(runs, one)) in middles else one
        for one in ratios
    )


def _group(runs: Sequence[Extract], one: Ratio) -> tuple[str, str, str, str]:
    return runs[one.run].machine, one.workload, one.device, one.leg
