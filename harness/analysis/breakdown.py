"""Where the time of as-written goes, from the legs: input, copy, starting steps, and the device itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.analysis.case import FREE, Case, activity, host_idle
from workloads.protocol import (
    AS_WRITTEN,
    BATCH_PREFIX,
    CALLS_PREFIX,
    CUSTOM_LOOP,
    HOST_FED,
    INPUT_ONLY,
    MODEL_ONLY,
    STAGE_PREFIX,
)

# A declared stage of this name stands for the copy to the device, as the driver's own does.
COPY = "copy"


@dataclass(frozen=True, slots=True, kw_only=True)
class InputShare:
    """The share of as-written's time that input cost.

    Attributes:
        share: between 0 and 1.
        seen: the wait was measured around next(), not inferred from other legs.
    """

    share: float
    seen: bool


def input_share(case: Case) -> InputShare | None:
    """Return what waiting for input costs, None when nothing tells.

    Where as-written cannot see itself wait (Keras fit fuses next() into the compiled step), the custom loop
    does, a sample's wait over as-written's time for it; but as-written waits for no more than it loses
    against the model alone. Without that loop input is blamed for what was lost, but for no more than it
    would cost with no overlap at all: the rest of the loss is somebody else's.
    """
    summary = case.legs.get(AS_WRITTEN)
    if summary is not None and summary.wait_share is not None:
        return InputShare(share=summary.wait_share, seen=True)
    whole, model, feed = (case.speed(leg) for leg in (AS_WRITTEN, MODEL_ONLY, INPUT_ONLY))
    if whole is None:
        return None
    lost = max(0.0, 1.0 - whole / model) if model is not None else None
    loop = case.legs.get(CUSTOM_LOOP)
    if loop is not None and loop.wait_share is not None:
        wait = min(1.0, loop.wait_share * whole / loop.throughput.median)
        return InputShare(share=wait if lost is None else min(wait, lost), seen=True)
    if lost is None or model is None or feed is None:
        return None
    return InputShare(share=min(lost, model / (feed + model)), seen=False)


def stage_seconds(case: Case) -> Mapping[str, float]:
    """Return stage -> seconds a sample that draining one stage more adds; empty without `stage:` legs."""
    before, costs = 0.0, {}
    declared = case.workload.stages if case.workload else ()
    ran = [leg.removeprefix(STAGE_PREFIX) for leg in case.legs if leg.startswith(STAGE_PREFIX)]
    for name in sorted(ran, key=lambda name: declared.index(name) if name in declared else len(declared)):
        after = 1.0 / case.legs[f"{STAGE_PREFIX}{name}"].throughput.median
        costs[name] = max(0.0, after - before)
        before = max(before, after)
    copied = copy_seconds(case)
    if costs and copied is not None and COPY not in costs:
        costs[COPY] = copied
    return costs


def copy_seconds(case: Case) -> float | None:
    """Return the seconds a sample that draining to a card takes longer than draining to the host."""
    feed = case.speed(INPUT_ONLY)
    stages = [one.throughput.median for leg, one in case.legs.items() if leg.startswith(STAGE_PREFIX)]
    if not case.on_gpu or feed is None or not stages:
        return None
    return max(0.0, 1.0 / feed - 1.0 / min(stages))


def dearest_stage(case: Case) -> str:
    """Return the stage that costs most; "" without stages."""
    costs = stage_seconds(case)
    return max(costs, key=lambda name: costs[name]) if any(costs.values()) else ""


def copy_share(case: Case) -> float | None:
    """Return the share of as-written's time spent on copying batches to the device; None when nothing tells.

    What feeding the same batch from host memory costs over feeding it from the device's own. Without that
    leg, the wait for input where copying is the pipeline's dearest stage.
    """
    whole, model, fed = (case.speed(leg) for leg in (AS_WRITTEN, MODEL_ONLY, HOST_FED))
    if whole is not None and model is not None and fed is not None:
        return min(max(0.0, 1.0 / fed - 1.0 / model) * whole, max(0.0, 1.0 - whole / model))
    feed = input_share(case)
    if feed is not None and COPY in stage_seconds(case):
        return feed.share if dearest_stage(case) == COPY else 0.0
    return None


def waits_for_copy(case: Case, least: float) -> bool:
    """Tell whether it is the copy to the device that input takes so long for, from a share of the time on."""
    return dearest_stage(case) == COPY and (copy_share(case) or 0.0) >= least


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCost:
    """A step of the model alone as a + b times its batch, in seconds, by least squares.

    Attributes:
        fixed_s: what a step costs whatever its batch; step_s: a step as it is.
        growth: how many times as long a step takes with the largest batch tried, `times` as large.
    """

    fixed_s: float
    step_s: float
    growth: float
    times: float


def step_cost(case: Case) -> StepCost | None:
    """Return what doubling the batch shows; None without those legs."""
    model = case.legs.get(MODEL_ONLY)
    larger = [one for leg, one in case.legs.items() if leg.startswith(BATCH_PREFIX)]
    if model is None or not larger:
        return None
    points = [(one.batch_size / model.batch_size, one.step_time.median) for one in (model, *larger)]
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    if spread <= 0:
        return None
    slope = max(0.0, sum((x - mean_x) * (y - mean_y) for x, y in points) / spread)
    step_s = model.step_time.median
    largest = max(points)
    return StepCost(
        fixed_s=min(max(0.0, step_s - slope), step_s),
        step_s=step_s,
        growth=largest[1] / step_s,
        times=largest[0],
    )


def per_call_s(case: Case) -> float | None:
    """Return the seconds that calling each step by itself costs over many in a call; None if not measured."""
    model = case.legs.get(MODEL_ONLY)
    calls = [one for leg, one in case.legs.items() if leg.startswith(CALLS_PREFIX)]
    if model is None or not calls:
        return None
    return max(0.0, model.step_time.median - min(one.step_time.median for one in calls))


def fit_overhead_s(case: Case) -> float:
    """Return the seconds a step that Keras fit takes longer than the same steps in a plain loop."""
    written, loop = case.legs.get(AS_WRITTEN), case.legs.get(CUSTOM_LOOP)
    if written is None or loop is None:
        return 0.0
    return max(0.0, 1.0 / written.throughput.median - 1.0 / loop.throughput.median) * written.batch_size


def launch_share(case: Case) -> float | None:
    """Return the share of as-written's time in which the device waits to be told what to do next.

    What does not grow with the batch, as far as the device was idle; and no less than what many steps in one
    call save. None where no leg tells, and activity does not either.
    """
    written = case.legs.get(AS_WRITTEN)
    cost = step_cost(case)
    if written is None or cost is None:
        return None
    step_s = written.step_time.median
    fixed = min(1.0, cost.fixed_s / step_s)
    # The larger batches have told what a step costs: others matter only where they left no processor free.
    idle = idle_share(case, crowded_below=FREE)
    waits = fixed if idle is None else min(fixed, idle)
    saved = per_call_s(case)
    # What many steps in one call save is overhead, but never more than what a step costs whatever its batch.
    return max(waits, min(fixed, (saved or 0.0) / step_s))


def idle_share(case: Case, *, crowded_below: float = 1.0) -> float | None:
    """Return the share of as-written's time in which the device did nothing and input was not the reason.

    Args:
        crowded_below: where less of the processors than this was free, what others used was not idle.
    """
    busy = activity(case, AS_WRITTEN)
    if busy is None:
        return None
    feed = input_share(case)
    idle = 1.0 - busy[0]
    if not case.on_gpu and (free := host_idle(case, AS_WRITTEN)) is not None and free < crowded_below:
        idle = min(idle, free)
    return max(0.0, idle - (feed.share if feed else 0.0))


def device_share(case: Case) -> float | None:
    """Return the share of as-written's time that the model's own work takes; None without its leg."""
    whole, model = case.speed(AS_WRITTEN), case.speed(MODEL_ONLY)
    launch = launch_share(case)
    if whole is None or model is None or launch is None:
        return None
    feed, copied = input_share(case), copy_share(case)
    lost = launch + (feed.share if feed else 0.0)
    if case.on_gpu:
        lost += copied or 0.0
    return max(0.0, min(1.0, whole / model, 1.0 - lost))
