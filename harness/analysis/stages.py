"""The stages of an input pipeline: what draining one stage more adds to the time of a sample."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from harness.analysis.measures import Measure
from harness.analysis.stats import estimate
from harness.model.analysis import Estimate, Stage
from workloads.protocol import STAGE_PREFIX

# A stage that adds less than this share of the pipeline's time is not worth naming.
LEAST_SHARE = 0.05


def stages(names: Sequence[str], measures: Mapping[str, Sequence[Measure]]) -> tuple[Stage, ...]:
    """Return what each stage costs, in the pipeline's order, with intervals over windows."""
    return tuple(_stages(names, measures))


def _stages(names: Sequence[str], measures: Mapping[str, Sequence[Measure]]) -> Iterator[Stage]:
    before = estimate([0.0], "s/sample")
    assert before is not None
    for name in names:
        group = measures[f"{STAGE_PREFIX}{name}"]
        after = estimate([1 / speed for each in group for speed in each.window_throughputs], "s/sample")
        assert after is not None  # a measure has at least one window
        yield Stage(name=name, cost=_added(before, after))
        # Draining more cannot take less: where it seems to, that is noise.
        before = max(before, after, key=lambda each: each.median)


def _added(before: Estimate, after: Estimate) -> Estimate:
    """Return the difference of two independent estimates, none below zero."""
    middle = after.median - before.median
    down = np.hypot(after.median - after.low, before.high - before.median)
    up = np.hypot(after.high - after.median, before.median - before.low)
    return Estimate(
        median=max(0.0, middle), low=max(0.0, middle - float(down)), high=max(0.0, middle + float(up)),
        n=after.n, unit=after.unit,
    )  # fmt: skip


def slowest_stages(names: Sequence[str], measures: Mapping[str, Sequence[Measure]]) -> tuple[str, ...]:
    """Return the stage that costs most; with those whose interval reaches into its own, if there are any."""
    costs = stages(names, measures)
    total = sum(each.cost.median for each in costs)
    most = max(costs, key=lambda each: each.cost.median, default=None)
    if most is None or most.cost.median < LEAST_SHARE * total or not total:
        return ()
    return tuple(
        each.name
        for each in costs
        if each is most or (each.cost.high >= most.cost.low and each.cost.median >= most.cost.median / 2)
    )
