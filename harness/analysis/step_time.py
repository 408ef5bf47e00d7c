"""Where a step's time goes: parts that add up to the step as it was measured.

With seconds a step b of the baseline, l of the same step in a bare loop with next() outside and w of its
wait, u of the baseline fed from memory, h of the bare step fed from host memory, m of the model alone, all
for the baseline's batch:

    framework  b - l, at most u - h; Python that runs inside the step, and tracing it anew for changing shapes
    input wait w, less what Keras fit hides behind it (l - b, where l is the longer)
    slowed     (l - w) - h, less what of l - b is more than w, and what of b - l is more than u - h
    copy       h - m, h at most l - w
    launch     the part of m that two of three agree on: what does not grow with the batch, what many steps
               in a call save, and the device's idle time
    exchange   m less that of one device
    compute    the rest of m
    host taken a share of what needs a CPU: all parts, but for a GPU's compute, copy and exchange

Each is clipped at zero, and `unexplained` is b less all of them. Without the bare loop (inference, several
devices) u - h is framework, and the rest of b - h is input wait as far as the pipeline alone is slower than the
model, slowed as far as u was measured and the pipeline takes that long, and unexplained beyond that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from harness.analysis.align import Floats
from harness.analysis.case import Case, cpus_used, device_activity, free_cpus
from harness.analysis.host_taken import taken
from harness.analysis.measures import Measure
from harness.analysis.pipelines import slowest_stages
from harness.analysis.stats import chi_median
from harness.model.analysis import Estimate, Part, StepTime
from workloads.protocol import (
    BASELINE,
    BATCH_PREFIX,
    CALLS_PREFIX,
    CUSTOM_LOOP,
    HOST_FED,
    INPUT_ONLY,
    MODEL_ONLY,
    PYTHON_IN_STEP,
    RETRACING,
    TUNED,
    WITHOUT_INPUT,
)

DRAWS = 1000
SEED = 20_240_229
# Values of so many trials are independent enough; with fewer the windows stand in for them.
ENOUGH_TRIALS = 3
# A stage of this name stands for the copy to the device, where the workload's own pipeline does it.
COPY_STAGE = "copy"


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds a step; arrays of one length, a value a draw, or plain numbers. None where not measured.

    Attributes:
        feed: of the input pipeline alone.
        unfed: of the baseline with a batch that is ready in memory.
        launch, exchange: the parts of `model` that they are; python: of it, functions run by Python.
        retracing: of the loop, tracing and compiling the step for shapes it has not met.
        taken: the share of the baseline's time that quota, steal or other programs took, 0 to 1.
    """

    baseline: Floats
    model: Floats
    loop: Floats | None = None
    wait: Floats | None = None
    host_fed: Floats | None = None
    feed: Floats | None = None
    unfed: Floats | None = None
    launch: Floats | float | None = None
    exchange: Floats | float | None = None
    python: Floats | float = 0.0
    retracing: Floats | float = 0.0
    taken: float = 0.0
    on_gpu: bool = False


def split(times: Times) -> dict[Part, Floats]:
    """Return the parts of the baseline's step; they add up to it whatever the times."""
    parts = dict(_split(times))
    if times.taken:
        _take(parts, times)
    rest = times.baseline - np.sum(list(parts.values()), axis=0)
    return {part: parts[part] for part in Part if part in parts} | {Part.UNEXPLAINED: rest}


def _split(times: Times) -> Iterator[tuple[Part, Floats]]:
    model = times.model
    launch, exchange = _some(times.launch, model), _some(times.exchange, model)
    python = np.minimum(_some(times.python, model), model)
    exchange = np.minimum(exchange, model - python)
    launch = np.minimum(launch, model - python - exchange)
    yield Part.COMPUTE, model - python - exchange - launch
    if times.launch is not None:
        yield Part.LAUNCH, launch
    if times.exchange is not None:
        yield Part.EXCHANGE, exchange
    fed = model if times.host_fed is None else np.maximum(model, times.host_fed)
    if times.loop is not None and times.wait is not None:
        # The loop does it as well.
        fed = np.minimum(fed, np.maximum(model, times.loop - times.wait))
    if times.host_fed is not None:
        yield Part.COPY, fed - model
    if times.loop is not None and times.wait is not None:
        # Batches out of a buffer that filled earlier would have been waited for.
        buffered = _clipped(np.minimum(_some(times.feed, model), times.baseline) - times.loop)
        loop, wait = times.loop + buffered, times.wait + buffered
        # What the loop takes longer than the baseline is no part of it, be it wait or a slower step.
        longer = _clipped(loop - times.baseline)
        slowed = _clipped(_clipped(loop - wait - fed) - _clipped(longer - wait))
        retracing = np.minimum(_some(times.retracing, model), slowed)
        wait = _clipped(wait - longer)
        around, slowed = _clipped(times.baseline - loop), slowed - retracing
        if times.unfed is not None:
            # What Keras' loop costs without input is all that it costs; with input it is slowed too, by no more
            # than the pipeline takes.
            most = times.baseline - times.unfed
            most = most if times.feed is None else np.minimum(most, times.feed)
            excess = np.minimum(
                _clipped(around - _clipped(times.unfed - fed)), _clipped(most - wait - slowed)
            )
            around, slowed = around - excess, slowed + excess
        yield Part.FRAMEWORK, around + python + retracing
        yield Part.INPUT_WAIT, wait
        yield Part.INPUT_SLOWDOWN, slowed
    elif times.feed is not None:
        lost = _clipped(times.baseline - fed)
        if times.unfed is not None:
            around = np.minimum(lost, _clipped(times.unfed - fed))
            lost = lost - around
            yield Part.FRAMEWORK, around
        wait = np.minimum(lost, _clipped(times.feed - fed))
        yield Part.INPUT_WAIT, wait
        if times.unfed is not None:
            yield Part.INPUT_SLOWDOWN, np.minimum(lost - wait, times.feed)


def _take(parts: dict[Part, Floats], times: Times) -> None:
    """Move what the host took out of the parts that needed a CPU."""
    kept = (Part.COMPUTE, Part.COPY, Part.EXCHANGE) if times.on_gpu else ()
    needed = [part for part in parts if part not in kept]
    of_cpu = np.sum([parts[part] for part in needed], axis=0) if needed else np.zeros_like(times.baseline)
    taken = np.minimum(times.taken * times.baseline, of_cpu)
    with np.errstate(invalid="ignore", divide="ignore"):
        left = np.where(of_cpu > 0, 1.0 - taken / of_cpu, 1.0)
    for part in needed:
        parts[part] = parts[part] * left
    parts[Part.HOST] = taken


def _some(value: Floats | float | None, like: Floats) -> Floats:
    return np.zeros_like(like) + (0.0 if value is None else value)


def _clipped(value: Floats) -> Floats:
    return np.maximum(value, 0.0)


def step_times(cases: Sequence[Case]) -> tuple[StepTime, ...]:
    """Return the breakdown of baseline and tuned, for each workload and device that has them."""
    alone = {case.name: case for case in cases if case.device.startswith("gpu") and "+" not in case.device}
    result = (
        each for case in cases for each in (baseline_time(case, alone.get(case.name)), tuned_time(case))
    )
    return tuple(each for each in result if each is not None)


def baseline_time(case: Case, alone: Case | None = None) -> StepTime | None:
    """Return the breakdown of the baseline's step, None where the model alone was not measured.

    Args:
        alone: the same workload on a single GPU.
    """
    if BASELINE not in case.variants:
        return None
    drawn = _Drawn(case)
    baseline, loop, model = (drawn.step(variant) for variant in (BASELINE, CUSTOM_LOOP, MODEL_ONLY))
    waits = drawn.wait_share(CUSTOM_LOOP)
    if baseline is None or model is None:
        return None
    # Baseline and loop run the same step: alone it takes no longer, however noisy the machine was.
    model = np.minimum(model, baseline)
    model = np.minimum(model, loop * (1.0 - waits)) if loop is not None and waits is not None else model
    python = case.metric(BASELINE, PYTHON_IN_STEP) or 0.0
    times = Times(
        baseline=baseline,
        loop=loop if waits is not None else None,
        wait=loop * waits if loop is not None and waits is not None else None,
        host_fed=drawn.step(HOST_FED),
        model=model,
        feed=drawn.step(INPUT_ONLY),
        unfed=drawn.step(WITHOUT_INPUT),
        launch=_launch(case, drawn, model, python),
        exchange=_exchange(case, alone, model),
        python=python,
        retracing=case.metric(CUSTOM_LOOP, RETRACING) or 0.0,
        taken=1.0 - math.prod(1.0 - share for share in taken(case).values()),
        on_gpu=case.on_gpu,
    )
    parts = split(times)
    if slowest_stages(case) == (COPY_STAGE,) and Part.INPUT_WAIT in parts:
        waited = parts.pop(Part.INPUT_WAIT)
        parts[Part.COPY] = parts.get(Part.COPY, np.zeros_like(waited)) + waited
    return _made(case, BASELINE, baseline, parts)


def tuned_time(case: Case) -> StepTime | None:
    """Return the breakdown of tuned by its wait and by how busy a GPU was; None where neither is known."""
    if BASELINE not in case.variants or TUNED not in case.variants:
        return None
    drawn = _Drawn(case)
    total = drawn.step(TUNED)
    assert total is not None  # it has a summary
    waits = drawn.wait_share(TUNED)
    wait = total * waits if waits is not None else None
    busy = device_activity(case, TUNED) if case.on_gpu else None
    if wait is None and busy is None:
        return None
    rest = total if wait is None else total - wait
    parts = {Part.COMPUTE: rest if busy is None else np.minimum(total * busy, rest)}
    if wait is not None:
        parts[Part.INPUT_WAIT] = wait
        if busy is not None:
            parts[Part.LAUNCH] = rest - parts[Part.COMPUTE]
    parts[Part.UNEXPLAINED] = total - np.sum(list(parts.values()), axis=0)
    return _made(case, TUNED, total, parts)


def _made(case: Case, variant: str, total: Floats, parts: Mapping[Part, Floats]) -> StepTime:
    trials = len(case.measures[variant])
    return StepTime(
        workload=case.name,
        device=case.device,
        variant=variant,
        batch=case.variants[BASELINE].batch_size,
        total=_estimate(total, trials),
        parts={part: _estimate(parts[part], trials) for part in Part if part in parts},
    )


def _estimate(draws: Floats, trials: int) -> Estimate:
    low, high = np.quantile(draws[1:], (0.025, 0.975)) if len(draws) > 1 else (draws[0], draws[0])
    point = float(draws[0])
    return Estimate(
        median=point, low=min(float(low), point), high=max(float(high), point), n=trials, unit="s"
    )


def _launch(case: Case, drawn: _Drawn, model: Floats, python: float) -> Floats | None:
    """Return the part of the model's step in which the device waits for the program; None where nothing tells.

    Each piece of evidence misleads by itself: an optimizer's pass over the weights does not grow with the
    batch either, many steps in a call still launch their kernels, and a CPU's threads idle for other reasons.
    So the middle one of the three counts, or the lower of two; of a GPU its idle time alone, where neither of
    the others was measured. Python inside the step is neither of them.
    """
    evidence = [item for item in (_fixed(case, drawn, model), _saved(case, drawn, model)) if item is not None]
    idle = _idle(case)
    if idle is not None and (evidence or case.on_gpu):
        evidence.append(idle * model)
    evidence = [_clipped(each - python) for each in evidence]
    if len(evidence) == 3:
        return np.asarray(np.median(evidence, axis=0))
    return np.asarray(np.min(evidence, axis=0)) if evidence else None


def _fixed(case: Case, drawn: _Drawn, model: Floats) -> Floats | None:
    """Return what a step of the model costs whatever its batch: the intercept of a line by least squares."""
    larger = [name for name in case.variants if name.startswith(BATCH_PREFIX)]
    factors = np.array([1.0, *(float(name.removeprefix(BATCH_PREFIX)) for name in larger)])
    if not larger:
        return None
    steps = [each * factor for name, factor in zip(larger, factors[1:], strict=True)
             if (each := drawn.step(name)) is not None]  # fmt: skip
    y = np.stack([model, *steps])
    x = factors - factors.mean()
    slope = (x[:, None] * (y - y.mean(axis=0))).sum(axis=0) / (x**2).sum()
    return np.asarray(np.clip(model - slope, 0.0, model))


def _saved(case: Case, drawn: _Drawn, model: Floats) -> Floats | None:
    """Return what many steps in one call save of each."""
    steps = [each for name in case.variants if name.startswith(CALLS_PREFIX)
             if (each := drawn.step(name)) is not None]  # fmt: skip
    return np.clip(model - np.min(steps, axis=0), 0.0, model) if steps else None


def _idle(case: Case) -> float | None:
    """Return the share of the model-only time in which the device did nothing and nobody else had it."""
    if case.on_gpu:
        busy = device_activity(case, MODEL_ONLY)
        return None if busy is None else 1.0 - busy
    used, cpus = cpus_used(case, MODEL_ONLY), case.cpus
    if used is None or not cpus:
        return None
    idle, free = max(0.0, 1.0 - used / cpus), free_cpus(case, MODEL_ONLY)
    return idle if free is None else min(idle, free)


def _exchange(case: Case, alone: Case | None, model: Floats) -> Floats | None:
    """Return what the model's step takes longer on several GPUs than on one with the same batch for each."""
    if alone is None or len(case.gpus) < 2 or MODEL_ONLY not in alone.measures:
        return None
    if case.variants[MODEL_ONLY].batch_size != alone.variants[MODEL_ONLY].batch_size * len(case.gpus):
        return None
    single = _Drawn(alone).step(MODEL_ONLY)
    return None if single is None else _clipped(model - single)


class _Drawn:
    """A case's times as draws from what its trials leave open; the first is the median over trials.

    Speeds are positive and their noise is a factor: draws are Student's t around the logarithm. Two values say
    next to nothing of their spread, so that of few it is pooled over the case's variants.
    """

    def __init__(self, case: Case) -> None:
        self._case = case
        self._batch = case.variants[BASELINE].batch_size
        logs = [np.log(_values(group)) for group in case.measures.values() if len(_values(group)) > 1]
        self._degrees = sum(len(values) - 1 for values in logs)
        # The median over variants: a hiccup in one of them says nothing of the others.
        spreads = [values.std(ddof=1) / chi_median(len(values) - 1) for values in logs]
        self._spread = float(np.median(spreads)) if spreads else 0.0

    def step(self, variant: str) -> Floats | None:
        """Return seconds for as many samples as a step of the baseline has."""
        group = self._case.measures.get(variant)
        if not group:
            return None
        point = self._batch / np.median([each.throughput for each in group])
        values = np.log(self._batch / np.array(_values(group)))
        return np.asarray(point * np.exp(self._noise(values, variant)))

    def wait_share(self, variant: str) -> Floats | None:
        """Return the share of a variant's time spent waiting for input; None where that was not seen."""
        shares = [
            each.wait_share for each in self._case.measures.get(variant, ()) if each.wait_share is not None
        ]
        if not shares:
            return None
        return np.clip(np.median(shares) + self._noise(np.array(shares), f"{variant} wait"), 0.0, 1.0)

    def _noise(self, values: Floats, name: str) -> Floats:
        """Return zero, and as many deviations of the mean of `values` as there are draws."""
        spread, degrees = self._spread, self._degrees
        if len(values) >= ENOUGH_TRIALS:
            spread, degrees = float(values.std(ddof=1)), len(values) - 1
        if not degrees:
            return np.zeros(DRAWS + 1)
        seed = [SEED, *f"{self._case.name} {self._case.device} {name}".encode()]
        drawn = np.random.default_rng(seed).standard_t(degrees, DRAWS)
        return np.concatenate(([0.0], spread / np.sqrt(len(values)) * drawn))


def _values(group: Sequence[Measure]) -> list[float]:
    """Return samples/s of each trial, or of each window where the trials are few."""
    if len(group) >= ENOUGH_TRIALS:
        return [each.throughput for each in group]
    return [speed for each in group for speed in each.window_throughputs]
