"""Where the time of baseline goes, from the variants: input, copy, starting steps, and the device itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.analysis.case import FREE, Case, activity, host_idle
from harness.model.analysis import Summary
from workloads.protocol import (
    BASELINE,
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
# xprof (step time breakdown): kernel launch and unattributed time from 15 % of the step is "high", from 3 %
# "moderate".
LAUNCH_HIGH = 0.15
# Two ways of telling the same differ by noise up to what xprof begins to call a loss: 5 % of the time.
NOISE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class InputShare:
    """The share of baseline's time that input cost.

    Attributes:
        share: between 0 and 1.
        seen: the wait was measured around next(), not inferred from other variants.
        waited: that wait alone; the rest of `share` is what preparing data slows the steps themselves down.
    """

    share: float
    seen: bool
    waited: float


def input_share(case: Case) -> InputShare | None:
    """Return what waiting for input costs, None when nothing tells.

    Where baseline cannot see itself wait (Keras fit fuses next() into the compiled step), the custom loop
    does, a sample's wait over baseline's time for it; but baseline waits for no more than it loses
    against the model alone. Without that loop input is blamed for what was lost, but for no more than it
    would cost with no overlap at all: the rest of the loss is somebody else's.

    Where a sample takes longer in the input alone than in the model alone, all that is lost against the model
    alone is input's: no overlap hides it, and a step that shares CPUs or Python's lock with the
    pipeline is held up inside itself as well, where no loop sees it wait.
    """
    summary = case.variants.get(BASELINE)
    if summary is not None and summary.wait_share is not None:
        return InputShare(share=summary.wait_share, seen=True, waited=summary.wait_share)
    whole, model, feed = (case.speed(variant) for variant in (BASELINE, MODEL_ONLY, INPUT_ONLY))
    if whole is None:
        return None
    lost = max(0.0, 1.0 - whole / model) if model is not None else None
    loop = case.variants.get(CUSTOM_LOOP)
    if loop is not None and loop.wait_share is not None:
        wait = min(1.0, loop.wait_share * whole / loop.throughput.median)
        most = 1.0 if lost is None else lost
        share = most if _slower_than_model(whole, model, feed) else min(wait, most)
        return InputShare(share=share, seen=True, waited=min(wait, share))
    if lost is None or model is None or feed is None:
        return None
    share = min(lost, model / (feed + model))
    return InputShare(share=share, seen=False, waited=share)


def _slower_than_model(whole: float, model: float | None, feed: float | None) -> bool:
    """Tell whether input alone is slower than the model alone, by more of baseline's time than noise."""
    if model is None or feed is None:
        return False
    # The two variants are not measured at once: what noise makes of them is no cost of input.
    return whole * (1.0 / feed - 1.0 / model) >= NOISE


def stage_seconds(case: Case) -> Mapping[str, float]:
    """Return stage -> seconds a sample that draining one stage more adds; empty without `stage:` variants."""
    before, costs = 0.0, {}
    declared = case.workload.stages if case.workload else ()
    ran = [
        variant.removeprefix(STAGE_PREFIX) for variant in case.variants if variant.startswith(STAGE_PREFIX)
    ]
    for name in sorted(ran, key=lambda name: declared.index(name) if name in declared else len(declared)):
        after = 1.0 / case.variants[f"{STAGE_PREFIX}{name}"].throughput.median
        costs[name] = max(0.0, after - before)
        before = max(before, after)
    copied = copy_seconds(case)
    if costs and copied is not None and COPY not in costs:
        costs[COPY] = copied
    return costs


def copy_seconds(case: Case) -> float | None:
    """Return the seconds a sample that draining to a GPU takes longer than draining to the host."""
    feed = case.speed(INPUT_ONLY)
    stages = [
        one.throughput.median for variant, one in case.variants.items() if variant.startswith(STAGE_PREFIX)
    ]
    if not case.on_gpu or feed is None or not stages:
        return None
    return max(0.0, 1.0 / feed - 1.0 / min(stages))


def slowest_stage(case: Case) -> str:
    """Return the stage that costs most; "" without stages."""
    costs = stage_seconds(case)
    return max(costs, key=lambda name: costs[name]) if any(costs.values()) else ""


def copy_share(case: Case) -> float | None:
    """Return the share of baseline's time spent on copying batches to the device; None when nothing tells.

    What feeding the same batch from host memory costs over feeding it from the device's own. Without that
    variant, the wait for input where copying is the pipeline's slowest stage.
    """
    whole, model, fed = (case.speed(variant) for variant in (BASELINE, MODEL_ONLY, HOST_FED))
    if whole is not None and model is not None and fed is not None:
        return min(max(0.0, 1.0 / fed - 1.0 / model) * whole, max(0.0, 1.0 - whole / model))
    feed = input_share(case)
    if feed is not None and COPY in stage_seconds(case):
        return feed.share if slowest_stage(case) == COPY else 0.0
    return None


def waits_for_copy(case: Case, least: float) -> bool:
    """Tell whether it is the copy to the device that input takes so long for, from a share of the time on."""
    return slowest_stage(case) == COPY and (copy_share(case) or 0.0) >= least


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
    """Return what doubling the batch shows; None without those variants."""
    model = case.variants.get(MODEL_ONLY)
    larger = [one for variant, one in case.variants.items() if variant.startswith(BATCH_PREFIX)]
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
    """Return the seconds that calling each step by itself costs over many in a call; None if not measured.

    Below zero where noise made the many the slower ones.
    """
    model, calls = case.variants.get(MODEL_ONLY), _calls(case)
    if model is None or calls is None:
        return None
    return model.step_time.median - calls.step_time.median


def _calls(case: Case) -> Summary | None:
    """Return the quickest variant with many steps in one call."""
    calls = [one for variant, one in case.variants.items() if variant.startswith(CALLS_PREFIX)]
    return min(calls, key=lambda one: one.step_time.median, default=None)


def fit_overhead_s(case: Case) -> float:
    """Return the seconds a step that Keras fit takes longer than the same steps in a plain loop."""
    written, loop = case.variants.get(BASELINE), case.variants.get(CUSTOM_LOOP)
    if written is None or loop is None:
        return 0.0
    return max(0.0, 1.0 / written.throughput.median - 1.0 / loop.throughput.median) * written.batch_size


@dataclass(frozen=True, slots=True, kw_only=True)
class Launching:
    """What the variants tell of starting steps, as shares of baseline's time.

    Attributes:
        fixed: what a step costs whatever its batch: starting it, or work such as an optimiser's pass over the
            weights. Starting costs no more.
        saved: what many steps in one call save, below zero by noise; None if not measured. Starting costs no
            less.
        idle: as `idle_share`, None where no telemetry tells: what is fixed is then not told from work.
        noise: by how much `saved` may pass `fixed` without contradicting it.
    """

    fixed: float
    saved: float | None
    idle: float | None
    noise: float

    @property
    def contradictory(self) -> bool:
        """Whether many steps in a call save more than a step costs whatever its batch: both cannot be."""
        return (self.saved or 0.0) > self.fixed + self.noise

    @property
    def least(self) -> float:
        """What starting steps costs at least."""
        shown = min(max(self.saved or 0.0, 0.0), self.fixed)
        return shown if self.idle is None else max(shown, min(self.fixed, self.idle))

    @property
    def most(self) -> float:
        """What it costs at most; the same as `least` where activity is known and nothing contradicts it."""
        if self.contradictory:
            return min(1.0, self.saved or 0.0)
        return self.fixed if self.idle is None else self.least

    @property
    def share(self) -> float | None:
        """What it costs, None where it may be high or not: what is shown if high, else what may be."""
        if self.least < LAUNCH_HIGH <= self.most:
            return None
        return self.least if self.least >= LAUNCH_HIGH else self.most


def launching(case: Case) -> Launching | None:
    """Return what the variants tell of starting steps; None without larger batches to tell it from."""
    written, cost = case.variants.get(BASELINE), step_cost(case)
    if written is None or cost is None:
        return None
    step_s, saved = written.step_time.median, per_call_s(case)
    widths = [
        (one.step_time.high - one.step_time.low) / 2
        for one in (case.variants.get(MODEL_ONLY), _calls(case))
        if one is not None and one.step_time.n > 1
    ]
    return Launching(
        fixed=min(1.0, cost.fixed_s / step_s),
        saved=None if saved is None else saved / step_s,
        # The larger batches have told what a step costs: others matter only where they left no CPU
        # free.
        idle=idle_share(case, crowded_below=FREE),
        noise=max(NOISE, sum(widths) / step_s),
    )


def launch_share(case: Case) -> float | None:
    """Return the share of baseline's time in which the device waits to be told what to do next.

    What does not grow with the batch, as far as the device was idle; and no less than what many steps in one
    call save. None without those variants, and where they leave open whether it is much.
    """
    told = launching(case)
    return told.share if told is not None else None


def idle_share(case: Case, *, crowded_below: float = 1.0) -> float | None:
    """Return the share of baseline's time in which the device did nothing and input was not the reason.

    Args:
        crowded_below: where less of the CPUs than this was free, what others used was not idle.
    """
    busy = activity(case, BASELINE)
    if busy is None:
        return None
    feed = input_share(case)
    idle = 1.0 - busy[0]
    if not case.on_gpu and (free := host_idle(case, BASELINE)) is not None and free < crowded_below:
        idle = min(idle, free)
    return max(0.0, idle - (feed.share if feed else 0.0))


def device_share(case: Case) -> float | None:
    """Return the share of baseline's time that the model's own work takes; None without its variant."""
    whole, model = case.speed(BASELINE), case.speed(MODEL_ONLY)
    launch = launch_share(case)
    if whole is None or model is None or launch is None:
        return None
    feed, copied = input_share(case), copy_share(case)
    lost = launch + (feed.share if feed else 0.0)
    if case.on_gpu:
        lost += copied or 0.0
    return max(0.0, min(1.0, whole / model, 1.0 - lost))
