"""Break down the step time into parts that add up to the measured step.

All times are in seconds per step for the batch of the variant that is broken down, and differences are clipped at zero.
These are measured:

    b  the baseline, from here on without what ends of epochs add to it, which is the part `epochs`
    l  the same step in a custom training loop with next() outside the step; w is the time in next()
    u  the baseline fed from memory
    h  the bare step fed from host memory
    m  the model alone
    f  the input pipeline alone

1. The fed step. h exceeds m by the copy. As the loop includes this step, noise in h is limited by it:

    s = max(m, h), at most l - w          copy = s - m

2. The loop in the long run. Batches that were buffered before it began saved it a part of its wait, because no loop is
   faster than its pipeline:

    buffered = min(f, b) - l              L = l + buffered, W = w + buffered

3. Keras' fit against the loop. Either it costs more, or it hides some of the wait behind the step:

    framework = b - L                     hidden = L - b, wait = W - hidden

   On a CPU, where they wait for no device, callbacks take a time of their own, c, while input that is prepared ahead
   goes on: c is framework, and what it exceeds b - L by is no wait.

4. Interference: what the running pipeline takes from the step, at most the pipeline's own time. What fit hides beyond
   the wait is not in the baseline, and tracing for changing shapes belongs to the framework:

    slowed = (L - W - s) - (hidden - W)   slowed = min(slowed - retracing, f)

5. The framework without a pipeline. Keras' loop costs no more than it does with input from memory, u - s; what exceeds
   that is interference, up to what feeding from memory saves and the pipeline takes:

    excess = framework - (u - s), at most min(b - u, f) - wait - slowed

6. Without the loop (several devices), b - s is divided in this order, each part taking no more than is left:

    framework = u - s, wait = f - s, and if u was measured slowed = f

7. The model m consists of Python inside the step (a part of the framework); all-reduce, m minus m on one device;
   launch, confirmed by two of three: time that does not grow with the batch, time saved by multiple steps per call, and
   idle time of the device; and compute, the remainder.

8. Host contention is a share of all parts that need a CPU, that is all but a GPU's compute, copy and all-reduce;
   `unexplained` is b minus the sum of all parts. Serving has no input.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from harness.analysis.case import Case
from harness.analysis.telemetry_means import Floats
from harness.analysis.trial_measures import units
from harness.analysis.utilisation import cpus_used, device_activity, free_cpus, host_shares, slowest_stages
from harness.intervals import Spread, own_spread
from harness.model.analysis import Estimate, StepTime
from workloads.protocol import BETWEEN_EPOCHS, CALLBACKS, PYTHON_IN_STEP, RETRACING
from workloads.variants import (
    BASELINE,
    BATCH,
    CALLS,
    CUSTOM_LOOP,
    HOST_FED,
    INPUT_ONLY,
    MODEL_ONLY,
    TUNED,
    WITHOUT_EPOCHS,
    WITHOUT_INPUT,
    Part,
)

# Largest logarithm of a draw; Student's t with one degree of freedom has no bounds.
_MOST_NOISE = 10.0
DRAWS = 1000
SEED = 20_240_229
# xprof calls a step that waits this share of its time highly input-bound.
HIGHLY_BOUND = 0.2
# Smaller shares of a step are rounding errors of its sums and differences.
ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds per step, as arrays with one value per draw or plain numbers; None if not measured.

    Attributes:
        between: part of `baseline` that epochs add to their steps; the other times are without it.
        feed: the input pipeline alone.
        from_memory: the baseline with its batch ready in memory.
        callbacks: part of `baseline`: methods of callbacks around batches.
        launch, exchange, python: parts of `model`; `python` is the time in Python functions.
        retracing: part of `loop`: tracing and compiling the step for new shapes.
        host_share: share of the baseline's time lost to quota, steal or other programs, 0 to 1.
    """

    baseline: Floats
    model: Floats
    between: Floats | float | None = None
    loop: Floats | None = None
    wait: Floats | None = None
    host_fed: Floats | None = None
    feed: Floats | None = None
    from_memory: Floats | None = None
    launch: Floats | float | None = None
    exchange: Floats | float | None = None
    python: Floats | float = 0.0
    callbacks: float = 0.0
    retracing: Floats | float = 0.0
    host_share: float = 0.0
    on_gpu: bool = False


def split(times: Times) -> dict[Part, Floats]:
    """Return the parts of the baseline's step, which always add up to it."""
    between = 0.0 if times.between is None else times.between
    parts = dict(_split(replace(times, baseline=times.baseline - between)))
    if times.between is not None:
        parts[Part.EPOCHS] = np.zeros_like(times.baseline) + times.between
    _move_host_share(parts, (times.baseline - between) * times.host_share, on_gpu=times.on_gpu)
    unexplained = times.baseline - np.sum(list(parts.values()), axis=0)
    return {part: parts[part] for part in Part if part in parts} | {Part.UNEXPLAINED: unexplained}


def _split(times: Times) -> Iterator[tuple[Part, Floats]]:
    """Yield the parts that need no knowledge of epochs and the host; the numbers are the steps of the derivation."""
    model, loop, wait = times.model, times.loop, times.wait
    python = np.minimum(_array(times.python, model), model)
    exchange = np.minimum(_array(times.exchange, model), model - python)
    launch = np.minimum(_array(times.launch, model), model - python - exchange)
    yield Part.COMPUTE, model - python - exchange - launch  # 7
    if times.launch is not None:
        yield Part.LAUNCH, launch
    if times.exchange is not None:
        yield Part.EXCHANGE, exchange
    fed = model if times.host_fed is None else np.maximum(model, times.host_fed)  # 1
    if loop is not None and wait is not None:
        fed = np.minimum(fed, np.maximum(model, loop - wait))
    if times.host_fed is not None:
        yield Part.COPY, fed - model
    if loop is not None and wait is not None:
        yield from _around_loop(times, loop, wait, fed, python)
    elif times.feed is not None:
        yield from _around_step(times, times.feed, fed)


def _around_loop(
    times: Times, loop: Floats, wait: Floats, fed: Floats, python: Floats
) -> Iterator[tuple[Part, Floats]]:
    """Yield what the custom training loop tells about the time around the fed step."""
    baseline = times.baseline
    feed = np.inf if times.feed is None else times.feed
    buffered = _clipped(np.minimum(_array(times.feed, fed), baseline) - loop)  # 2
    loop, wait = loop + buffered, wait + buffered
    hidden = _clipped(loop - baseline)  # 3
    framework, waited = _clipped(baseline - loop), _clipped(wait - hidden)
    if not times.on_gpu:
        beside = np.minimum(_clipped(times.callbacks - framework), waited)
        framework, waited = framework + beside, waited - beside
    slowed = _clipped(_clipped(loop - wait - fed) - _clipped(hidden - wait))  # 4
    retracing = np.minimum(_array(times.retracing, fed), slowed)
    slowed = np.minimum(slowed - retracing, feed)
    if times.from_memory is not None:  # 5
        # An input is slower beside the step than alone. Where the step waits for it anyway, all that goes away with it
        # is the input's; else no more than it takes alone.
        bound = np.where(waited + slowed >= HIGHLY_BOUND * baseline, np.inf, feed)
        most = np.minimum(baseline - times.from_memory, bound)
        excess = np.minimum(
            _clipped(framework - _clipped(times.from_memory - fed)), _clipped(most - waited - slowed)
        )
        framework, slowed = framework - excess, slowed + excess
    yield Part.FRAMEWORK, framework + python + retracing
    yield Part.INPUT_WAIT, waited
    yield Part.INPUT_SLOWDOWN, slowed


def _around_step(times: Times, feed: Floats, fed: Floats) -> Iterator[tuple[Part, Floats]]:
    """Yield what is known about the time around the fed step without the loop (6)."""
    left = _clipped(times.baseline - fed)
    if times.from_memory is not None:
        framework = np.minimum(left, _clipped(times.from_memory - fed))
        left = left - framework
        yield Part.FRAMEWORK, framework
    wait = np.minimum(left, _clipped(feed - fed))
    yield Part.INPUT_WAIT, wait
    if times.from_memory is not None:
        yield Part.INPUT_SLOWDOWN, np.minimum(left - wait, feed)


def _move_host_share(parts: dict[Part, Floats], lost: Floats, *, on_gpu: bool) -> None:
    """Move the time lost to the host from the parts that need a CPU to Part.HOST."""
    gpu_parts = (Part.COMPUTE, Part.COPY, Part.EXCHANGE) if on_gpu else ()
    # Between epochs nothing is sampled.
    cpu_parts = [part for part in parts if part not in (*gpu_parts, Part.EPOCHS)]
    if not cpu_parts or not np.any(lost):
        return
    cpu_time = np.sum([parts[part] for part in cpu_parts], axis=0)
    lost = np.minimum(lost, cpu_time)
    with np.errstate(invalid="ignore", divide="ignore"):
        scale = np.where(cpu_time > 0, 1.0 - lost / cpu_time, 1.0)
    for part in cpu_parts:
        parts[part] = parts[part] * scale
    parts[Part.HOST] = lost


def _array(value: Floats | float | None, like: Floats) -> Floats:
    return np.zeros_like(like) + (0.0 if value is None else value)


def _clipped(value: Floats) -> Floats:
    return np.maximum(value, 0.0)


def breakdown(case: Case, variant: str, single_gpu: Case | None) -> StepTime | None:
    """Return the breakdown of a variant's step; None if it is neither baseline nor tuned, or has none.

    Args:
        single_gpu: the same workload on one GPU.
    """
    if variant == BASELINE:
        return baseline_time(case, single_gpu)
    return tuned_time(case) if variant == TUNED else None


def baseline_time(case: Case, single_gpu: Case | None) -> StepTime | None:
    """Return the breakdown of the baseline's step; None if the model alone was not measured."""
    if BASELINE not in case.variants:
        return None
    draws = _Draws(case)
    baseline, model = draws.step(BASELINE), draws.step(MODEL_ONLY)
    waits = draws.wait_share(CUSTOM_LOOP)
    if baseline is None or model is None:
        return None
    loop, from_memory = (_without_epochs(case, draws, variant) for variant in (CUSTOM_LOOP, WITHOUT_INPUT))
    # Baseline and loop include the model's step, so it cannot take longer; anything else is noise.
    model = np.minimum(model, baseline)
    looped = draws.step(CUSTOM_LOOP)
    wait = (
        np.minimum(looped * waits, loop)
        if looped is not None and loop is not None and waits is not None
        else None
    )
    model = np.minimum(model, loop - wait) if loop is not None and wait is not None else model
    # Measured in place, and as what one long epoch saves: its other costs fall into steps.
    between, long = np.minimum(draws.between_epochs(), baseline), draws.step(WITHOUT_EPOCHS)
    if long is not None:
        between = np.maximum(between, baseline - long)
    model = np.minimum(model, baseline - between)
    python = case.metric(BASELINE, PYTHON_IN_STEP) or 0.0
    times = Times(
        baseline=baseline,
        between=between if between[0] > 0 else None,
        loop=loop if wait is not None else None,
        wait=wait,
        host_fed=draws.step(HOST_FED),
        model=model,
        feed=draws.step(INPUT_ONLY),
        from_memory=from_memory,
        launch=_launch(case, draws, model, python),
        exchange=_exchange(case, single_gpu, model),
        python=python,
        callbacks=case.metric(BASELINE, CALLBACKS) or 0.0,
        retracing=case.metric(CUSTOM_LOOP, RETRACING) or 0.0,
        host_share=_host_share(case, BASELINE),
        on_gpu=case.on_gpu,
    )
    parts = split(times)
    # What a new epoch waits for its shuffle buffer is the pipeline's work.
    if case.filling_s and Part.EPOCHS in parts:
        filling = np.minimum(case.filling_s, parts[Part.EPOCHS])
        parts[Part.EPOCHS] = parts[Part.EPOCHS] - filling
        parts[Part.INPUT_WAIT] = parts.get(Part.INPUT_WAIT, np.zeros_like(filling)) + filling
    slowest = [name.partition(",")[0] for name in slowest_stages(case)]
    # Name of the function in which a script's own pipeline copies to the device.
    if slowest == ["copy"] and Part.INPUT_WAIT in parts:
        waited = parts.pop(Part.INPUT_WAIT)
        parts[Part.COPY] = parts.get(Part.COPY, np.zeros_like(waited)) + waited
    return _step_time(case, BASELINE, baseline, parts)


def _without_epochs(case: Case, draws: _Draws, variant: str) -> Floats | None:
    """Return a variant's step without the time between epochs."""
    step = draws.step(variant)
    return None if step is None else _clipped(step - case.between_epochs_s(variant))


def tuned_time(case: Case) -> StepTime | None:
    """Return the breakdown of tuned from its wait and the GPU's activity; None if it does not tell its wait."""
    if BASELINE not in case.variants or TUNED not in case.variants:
        return None
    draws = _Draws(case, TUNED)
    total = draws.step(TUNED)
    assert total is not None  # it has a summary
    waits = draws.wait_share(TUNED)
    if waits is None:
        return None
    wait = total * waits
    busy = device_activity(case, TUNED) if case.on_gpu else None
    running = total - wait
    parts = {
        Part.COMPUTE: running if busy is None else np.minimum(total * busy, running),
        Part.INPUT_WAIT: wait,
    }
    if busy is not None:
        parts[Part.LAUNCH] = running - parts[Part.COMPUTE]
    _move_host_share(parts, total * _host_share(case, TUNED), on_gpu=case.on_gpu)
    parts[Part.UNEXPLAINED] = total - np.sum(list(parts.values()), axis=0)
    return _step_time(case, TUNED, total, parts)


def _host_share(case: Case, variant: str) -> float:
    return 1.0 - math.prod(1.0 - share for share in host_shares(case, variant).values())


def _step_time(case: Case, variant: str, total: Floats, parts: Mapping[Part, Floats]) -> StepTime:
    trials = len(units(case.measures[variant]))
    return StepTime(
        batch=case.variants[variant].batch_size,
        total=_estimate(total, trials),
        parts={
            part: _estimate(np.where(np.abs(parts[part]) < ROUNDING * total, 0.0, parts[part]), trials)
            for part in Part
            if part in parts
        },
    )


def _estimate(draws: Floats, trials: int) -> Estimate:
    low, high = np.quantile(draws[1:], (0.025, 0.975)) if len(draws) > 1 else (draws[0], draws[0])
    point = float(draws[0])
    return Estimate(
        median=point, low=min(float(low), point), high=max(float(high), point), n=trials, unit="s"
    )


def _launch(case: Case, draws: _Draws, model: Floats, python: float) -> Floats | None:
    """Return the part of the model's step in which the device waits for the program; None if unknown.

    There are three estimates, each with a weakness: the optimizer's pass over the weights does not grow with
    the batch either, multiple steps per call still launch their kernels, and CPU threads idle for other
    reasons. The result is the median of three or the lower of two. A GPU's idle time is enough on its own.
    Python inside the step is subtracted.
    """
    pair = (_batch_independent(case, draws, model), _saved_by_calls(case, draws, model))
    estimates = [each for each in pair if each is not None]
    idle = _idle_share(case)
    if idle is not None and (estimates or case.on_gpu):
        estimates.append(idle * model)
    estimates = [_clipped(each - python) for each in estimates]
    if len(estimates) == 3:
        return np.asarray(np.median(estimates, axis=0))
    return np.asarray(np.min(estimates, axis=0)) if estimates else None


def batch_independent_share(case: Case) -> float | None:
    """Return the share of the model's step that does not grow with the batch; None without larger batches."""
    return _share_of_model(case, _batch_independent)


def saved_by_calls_share(case: Case) -> float | None:
    """Return the share of the model's step that several steps per call save; None if that was not measured."""
    return _share_of_model(case, _saved_by_calls)


def _share_of_model(case: Case, part: Callable[[Case, _Draws, Floats], Floats | None]) -> float | None:
    draws = _Draws(case)
    model = draws.step(MODEL_ONLY)
    taken = None if model is None else part(case, draws, model)
    return None if model is None or taken is None else float(taken[0] / model[0])


def _batch_independent(case: Case, draws: _Draws, model: Floats) -> Floats | None:
    """Return the part of the model's step that does not grow with the batch (least-squares intercept)."""
    larger = BATCH.among(case.variants)
    factors = np.array([1.0, *map(float, map(BATCH.number, larger))])
    if not larger:
        return None
    steps = [each * factor for name, factor in zip(larger, factors[1:], strict=True)
             if (each := draws.step(name)) is not None]  # fmt: skip
    y = np.stack([model, *steps])
    x = factors - factors.mean()
    slope = (x[:, None] * (y - y.mean(axis=0))).sum(axis=0) / (x**2).sum()
    return np.asarray(np.clip(model - slope, 0.0, model))


def _saved_by_calls(case: Case, draws: _Draws, model: Floats) -> Floats | None:
    """Return the time per step saved by multiple steps per call."""
    steps = [each for name in CALLS.among(case.variants) if (each := draws.step(name)) is not None]  # fmt: skip
    return np.clip(model - np.min(steps, axis=0), 0.0, model) if steps else None


def _idle_share(case: Case) -> float | None:
    """Return the share of the model-only time in which the device was idle and not used by others."""
    if case.on_gpu:
        busy = device_activity(case, MODEL_ONLY)
        return None if busy is None else 1.0 - busy
    used, cpus = cpus_used(case, MODEL_ONLY), case.cpus
    if used is None or not cpus:
        return None
    idle, free = max(0.0, 1.0 - used / cpus), free_cpus(case, MODEL_ONLY)
    return idle if free is None else min(idle, free)


def _exchange(case: Case, single_gpu: Case | None, model: Floats) -> Floats | None:
    """Return the additional time of the model's step on several GPUs over one, at equal batch per GPU."""
    if single_gpu is None or len(case.gpus) < 2 or MODEL_ONLY not in single_gpu.measures:
        return None
    if case.variants[MODEL_ONLY].batch_size != single_gpu.variants[MODEL_ONLY].batch_size * len(case.gpus):
        return None
    single = _Draws(single_gpu).step(MODEL_ONLY)
    return None if single is None else _clipped(model - single)


class _Draws:
    """Random draws of a case's times that represent their uncertainty; the first is the median over readings.

    Noise is multiplicative, so draws are Student's t around the logarithm.
    """

    def __init__(self, case: Case, variant: str = BASELINE) -> None:
        self._case = case
        summary = case.variants[variant]
        # Samples per step, not rounded, so that the total is the measured step even if some batches are short.
        self._batch = summary.throughput.median * summary.step_time.median

    def step(self, variant: str) -> Floats | None:
        """Return seconds per step with the batch size of the variant to break down."""
        group = self._case.measures.get(variant)
        if not group:
            return None
        speeds = units(group)
        usual = self._case.spreads.of(self._case.device, variant)
        if len(speeds) == 1 and not usual.degrees:
            # Nothing is known but how its windows differ.
            speeds = [*group[0].window_throughputs]
        spread = own_spread(np.log(speeds)).joined(usual)
        noise = self._noise(spread.times(1 / math.sqrt(len(speeds))), variant)
        point = self._batch / float(np.median(units(group)))
        return np.asarray(point * np.exp(noise))

    def between_epochs(self) -> Floats:
        """Return the seconds per step that ends of epochs take in the baseline."""
        values = self._case.values(BASELINE, BETWEEN_EPOCHS)
        spread = self._case.spreads.of(self._case.device, BASELINE)
        if len(values) > 1 and min(values) > 0:
            spread = own_spread(np.log(values))
        noise = self._noise(spread.times(1 / math.sqrt(max(1, len(values)))), "between epochs")
        return np.asarray(self._case.between_epochs_s(BASELINE) * np.exp(noise))

    def wait_share(self, variant: str) -> Floats | None:
        """Return the share of a variant's time spent waiting for input; None if not observable."""
        shares = np.array(
            [each.wait_share for each in self._case.measures.get(variant, ()) if each.wait_share is not None]
        )
        if not shares.size:
            return None
        if not shares.any():  # its batches are in memory
            return np.zeros(DRAWS + 1)
        spread = own_spread(shares) if shares.size > 1 else self._case.spreads.of(self._case.device, variant)
        noise = self._noise(spread.times(1 / math.sqrt(shares.size)), f"{variant} wait")
        return np.asarray(np.clip(np.median(shares) + noise, 0.0, 1.0))

    def _noise(self, spread: Spread, name: str) -> Floats:
        """Return zero, followed by DRAWS random deviations of this spread."""
        if not spread.degrees:
            return np.zeros(DRAWS + 1)
        seed = [SEED, *f"{self._case.name} {self._case.device} {name}".encode()]
        deviations = np.random.default_rng(seed).standard_t(spread.degrees, DRAWS)
        return np.concatenate(([0.0], np.clip(spread.deviation * deviations, -_MOST_NOISE, _MOST_NOISE)))
