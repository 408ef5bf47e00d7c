"""The input pipeline alone: cost of each stage, CPUs used, slowest stage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from harness.analysis.case import Case
from harness.analysis.stats import estimate
from harness.analysis.utilisation import cpus_used
from harness.model.analysis import Estimate, Pipeline, Stage
from workloads.protocol import INPUT_ONLY, STAGE_PREFIX, THREADS_PREFIX

# A pipeline with more CPU use or speedup than this, compared with one thread, is parallel.
SERIAL_CPUS, SERIAL_SPEEDUP = 1.25, 1.25
# Stages below this share of the pipeline's time are not named.
MIN_STAGE_SHARE = 0.05


def pipelines(cases: Sequence[Case]) -> tuple[Pipeline, ...]:
    """Return the input pipeline of each workload and device with an input-only measurement."""
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
    """Yield the time per sample that each stage adds, in pipeline order, estimated over windows."""
    own = case.function_costs()
    if own:
        yield from (Stage(name=name, cost=cost) for name, cost in own.items())
        return
    # Variants are in the order in which they ran.
    ran = [name.removeprefix(STAGE_PREFIX) for name in case.variants if name.startswith(STAGE_PREFIX)]
    before = estimate([0.0], "s/sample")
    assert before is not None
    for name in ran:
        group = case.measures[f"{STAGE_PREFIX}{name}"]
        after = estimate([1 / speed for each in group for speed in each.window_throughputs], "s/sample")
        assert after is not None  # a measure has at least one window
        yield Stage(name=name, cost=_difference(before, after))
        # An additional stage cannot save time; apparent savings are noise.
        before = max(before, after, key=lambda each: each.median)


def _difference(before: Estimate, after: Estimate) -> Estimate:
    """Return the difference of two independent estimates, clipped at zero."""
    middle = after.median - before.median
    down = np.hypot(after.median - after.low, before.high - before.median)
    up = np.hypot(after.high - after.median, before.median - before.low)
    return Estimate(
        median=max(0.0, middle), low=max(0.0, middle - float(down)), high=max(0.0, middle + float(up)),
        n=after.n, unit=after.unit,
    )  # fmt: skip


def slowest_stages(case: Case) -> tuple[str, ...]:
    """Return the slowest stage and those that cannot be distinguished from it."""
    costs = list(_stages(case))
    total = sum(each.cost.median for each in costs)
    slowest = max(costs, key=lambda each: each.cost.median, default=None)
    if slowest is None or slowest.cost.median < MIN_STAGE_SHARE * total or not total:
        return ()
    return tuple(
        each.name
        for each in costs
        if each is slowest
        or (each.cost.high >= slowest.cost.low and each.cost.median >= slowest.cost.median / 2)
    )


def is_serial(case: Case) -> bool | None:
    """Return whether the pipeline prepares one sample at a time; None if unknown."""
    used, feed = cpus_used(case, INPUT_ONLY), case.speed(INPUT_ONLY)
    if used is None or feed is None:
        return None
    single = case.speed(f"{THREADS_PREFIX}1")
    return used <= SERIAL_CPUS and (single is None or feed <= SERIAL_SPEEDUP * single)
