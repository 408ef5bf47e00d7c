"""The input pipeline by itself: what each stage costs, how many CPUs it uses, which stage is the slowest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from harness.analysis.case import Case, cpus_used
from harness.analysis.stats import estimate
from harness.model.analysis import Estimate, Pipeline, Stage
from workloads.protocol import INPUT_ONLY, STAGE_PREFIX, THREADS_PREFIX

# More CPUs than one thread uses, or more speed than one thread has, tell that work runs side by side.
SERIAL_CPUS, SERIAL_SPEEDUP = 1.25, 1.25
# A stage that adds less than this share of the pipeline's time is not worth naming.
LEAST_SHARE = 0.05


def pipelines(cases: Sequence[Case]) -> tuple[Pipeline, ...]:
    """Return the pipeline of each workload and device whose input was drained."""
    return tuple(
        Pipeline(
            workload=case.name,
            device=case.device,
            stages=tuple(_stages(case)),
            cpus_used=cpus_used(case, INPUT_ONLY),
            cpus=case.cpus,
        )
        for case in cases
        if INPUT_ONLY in case.variants
    )


def _stages(case: Case) -> Iterator[Stage]:
    """Yield what draining each stage adds to the time of a sample, in the pipeline's order, over windows."""
    declared = case.workload.stages if case.workload else ()
    ran = [name.removeprefix(STAGE_PREFIX) for name in case.variants if name.startswith(STAGE_PREFIX)]
    before = estimate([0.0], "s/sample")
    assert before is not None
    for name in sorted(ran, key=lambda name: declared.index(name) if name in declared else len(declared)):
        group = case.measures[f"{STAGE_PREFIX}{name}"]
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


def slowest_stages(case: Case) -> tuple[str, ...]:
    """Return the stage that costs most; with those whose interval reaches into its own, if there are any."""
    costs = list(_stages(case))
    total = sum(each.cost.median for each in costs)
    most = max(costs, key=lambda each: each.cost.median, default=None)
    if most is None or most.cost.median < LEAST_SHARE * total or not total:
        return ()
    return tuple(
        each.name
        for each in costs
        if each is most or (each.cost.high >= most.cost.low and each.cost.median >= most.cost.median / 2)
    )


def is_serial(case: Case) -> bool | None:
    """Tell whether the pipeline prepares one sample after another; None where nothing tells."""
    used, feed = cpus_used(case, INPUT_ONLY), case.speed(INPUT_ONLY)
    if used is None or feed is None:
        return None
    single = case.speed(f"{THREADS_PREFIX}1")
    return used <= SERIAL_CPUS and (single is None or feed <= SERIAL_SPEEDUP * single)
