"""Find what limits a workload from its step-time breakdown, with predicted and measured gains."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from harness.analysis.case import Case
from harness.analysis.step_time import batch_independent_share, saved_by_calls_share
from harness.analysis.trust import excess_over, impossible, not_learning
from harness.analysis.utilisation import (
    clock_findings,
    cpus_used,
    host_shares,
    is_serial,
    slowest_stages,
    uses_one_cpu,
)
from harness.fixes import precision, rule_of
from harness.fixes.rule import Safety
from harness.model.analysis import (
    MOST_SPEEDUP,
    Ablation,
    Cause,
    Estimate,
    Finding,
    PeakUse,
    RatioKind,
    Remedy,
    StepTime,
    VariantResult,
)
from harness.model.metrics import GPU_UTILISATION
from harness.model.run import Status
from workloads.protocol import (
    BETWEEN_EPOCHS,
    CALLBACKS,
    COMPUTE_BITS,
    PYTHON_IN_STEP,
    RARE_CALLBACKS,
    RETRACING,
    WORTH,
)
from workloads.variants import (
    BASELINE,
    BATCH,
    CALLS,
    CUSTOM_LOOP,
    FIX,
    INPUT_ONLY,
    INPUT_PARTS,
    MODEL_ONLY,
    REMOVED_PARTS,
    TUNED,
    WITHOUT_EPOCHS,
    WITHOUT_FRAMEWORK,
    Part,
)

# Smallest share of the step that is a finding. MLPerf Storage tolerates 10 % of input (90 % accelerator utilisation).
MIN_SHARE = 0.10
# xprof (step time breakdown) considers a kernel launch time of 15 % of the step high.
MIN_LAUNCH_SHARE = 0.15
# Larger shares are findings whatever their interval: an input that gets slower has one that includes zero.
CERTAIN_SHARE = 0.25
# The disk is the cause if tasks were stalled on I/O for at least this share of the input time.
MIN_DISK_SHARE = 0.5
# A detail is named as the cause if it makes up at least this share of the framework part.
MIN_DETAIL_SHARE = 0.5
# About 80 % of the peak is reachable (DCGM user guide, DCGM_FI_PROF_DRAM_ACTIVE); three quarters of that
# counts as limited by memory bandwidth.
DRAM_LIMIT = 0.6

# An update is the cause if it takes this share of the step, and passes over its largest variable in it at this rate
# at least (bytes/s; a GPU's memory is faster): gradient, weight and two moments, read and written, of four bytes each.
MIN_UPDATE_SHARE, UPDATE_BYTES = 0.4, 28
MIN_UPDATE_RATE, MIN_GPU_UPDATE_RATE = 1e9, 2e10

# Small kernels, one after the other, take this share of the model's step at least whatever the batch.
MIN_LOOP_SHARE = 0.5

# Compute is on the CPU if it is this share of the model's step at least, and the GPU is busy for less than half of it;
# or if the model's step alone uses so many CPUs for a GPU. To launch its work takes one.
MIN_ON_CPU, MIN_CPUS = 0.5, 2.0

PRECISION_FIX = FIX.of(precision.RULE.name)


def findings(case: Case, baseline: VariantResult | None) -> tuple[Finding, ...]:
    """Return the findings of a workload on a device, largest share first.

    Failed training and impossible measurements come before all others. A device that is itself the limit
    ranks as if it cost MIN_SHARE of the time.
    """
    time, use = (baseline.breakdown, baseline.peak_use) if baseline else (None, None)
    unordered = [
        *not_learning(case),
        *(_step_findings(case, time, use) if time and Part.COMPUTE in time.parts else ()),
    ]
    return tuple(
        replace(
            each,
            ablation=_ablation(case, each, time),
            remedy=_remedy(case, each),
            refused=_refused(case, each),
        )
        for each in sorted(unordered, key=_rank)
    )


def _rank(finding: Finding) -> tuple[int, float]:
    if finding.cause in (Cause.NOT_LEARNING, Cause.IMPOSSIBLE):
        return 0, 0.0
    share = finding.share.median if finding.share else MIN_SHARE
    if finding.cause in (Cause.COMPUTE, Cause.MEMORY_BANDWIDTH):
        share = MIN_SHARE
    return (3, -share) if finding.cause is Cause.UNEXPLAINED and share < 0.5 else (1, -share)


def speedup_without(share: float) -> float:
    """Return the predicted speedup from removing a cause with this share of the time, 0 to 1.

    MOST_SPEEDUP at most.
    """
    return 1.0 / max(1.0 - share, 1 / MOST_SPEEDUP)


_Facts = Mapping[str, float | None]


def _step_findings(case: Case, time: StepTime, use: PeakUse | None) -> Iterator[Finding]:
    # Operations on the CPU take what is in the GPU's memory back, which a batch in host memory does not need.
    on_cpu = _on_cpu(case, time)
    if on_cpu is None:
        yield from impossible(case, time)
    recurrent, later = _recurrent(case, time), _later_input(case, time)
    if later:
        yield later
    for parts, cause in (
        *(() if later else ((INPUT_PARTS, _input(case, time)),)),
        ((Part.COPY,), Cause.COPY),
        *(() if recurrent or (on_cpu and Part.LAUNCH in on_cpu.parts) else (((Part.LAUNCH,), Cause.LAUNCH),)),
        ((Part.FRAMEWORK,), _framework(case, time)),
        ((Part.EPOCHS,), Cause.EPOCHS),
        ((Part.EXCHANGE,), Cause.EXCHANGE),
        ((Part.HOST,), _host(case)),
    ):
        share = _share(time, *parts)
        smallest = _smallest_launch(case) if cause is Cause.LAUNCH else MIN_SHARE
        # What changes during the measurement has a wide interval, but a large share is never by chance, nor one that
        # its ablation confirms.
        certain = share.low > 0.0 or share.median >= CERTAIN_SHARE or _confirmed(case, parts)
        if share.median >= smallest and certain:
            stages, facts = (slowest_stages(case), _use(case)) if parts is INPUT_PARTS else ((), {})
            if cause is Cause.EPOCHS:
                stages = _epoch_callbacks(case, time)
                known_of = {
                    "predicts": case.predicts,
                    "validates": case.validates,
                    "once": case.has_one_epoch,
                }
                facts = {name: 1.0 for name, holds in known_of.items() if holds}
            elif cause is Cause.LAUNCH:
                facts = _within_steps(case, share.median)
            finding = case.finding(cause, share, *parts, facts=facts)
            # What several steps per call save on a GPU depends on how they fetch their batches.
            known = not (cause is Cause.LAUNCH and case.on_gpu)
            yield replace(finding, gain=speedup_without(share.median) if known else None, stages=stages)
    yield from clock_findings(case)
    yield recurrent or _device(case, time, use)
    unexplained = _share(time, Part.UNEXPLAINED)
    if time.unexplained:
        yield case.finding(Cause.UNEXPLAINED, unexplained, Part.UNEXPLAINED)


def _smallest_launch(case: Case) -> float:
    """Return the smallest share of launch that is a finding; idle time of a GPU alone varies between readings."""
    confirmed = BATCH.among(case.variants) or CALLS.among(case.variants)
    return MIN_LAUNCH_SHARE if confirmed else CERTAIN_SHARE


def _within_steps(case: Case, share: float) -> _Facts:
    """Return what several steps per call save, as a share, and the speedup of a larger batch, if the first is little.

    Then the device waits between the kernels of a step, not for Python between steps.
    """
    saved = saved_by_calls_share(case)
    if saved is None or saved >= MIN_DETAIL_SHARE * share:
        return {}
    model = case.variants[MODEL_ONLY].throughput.median
    gains = [case.variants[name].throughput.median / model for name in BATCH.among(case.variants)]
    return {"saved": saved, "larger": max(gains, default=None)}


def _confirmed(case: Case, parts: Sequence[Part]) -> bool:
    """Return whether the ablation of just these parts gains what makes them a finding, in two readings at least.

    The part of epochs is itself measured by its ablation.
    """
    variants = (
        variant
        for variant, removed in REMOVED_PARTS.items()
        if removed == parts and variant != WITHOUT_EPOCHS
    )
    gains = (case.ratio(RatioKind.OVER_BASELINE, variant) for variant in variants)
    return any(gain.median >= speedup_without(MIN_SHARE) for gain in gains if gain and gain.n > 1)


def _epoch_callbacks(case: Case, time: StepTime) -> tuple[str, ...]:
    """Return the classes of the callbacks that take most of the time between epochs; () if other things do."""
    times, between_s = case.epoch_callbacks_s, time.parts[Part.EPOCHS].median
    if sum(times.values()) < MIN_DETAIL_SHARE * between_s:
        return ()
    return tuple(name for name, taken_s in times.items() if taken_s >= MIN_SHARE * between_s)


def _share(time: StepTime, *parts: Part) -> Estimate:
    """Return the combined share of some parts, with the widest of their intervals on each side, within 0 to 1."""
    estimates = [time.parts[part] for part in parts if part in time.parts]
    total = time.total.median
    middle = sum(each.median for each in estimates)
    down = max((each.median - each.low for each in estimates), default=0.0)
    up = max((each.high - each.median for each in estimates), default=0.0)
    low, high = (middle - down) / total, (middle + up) / total
    if parts != (Part.UNEXPLAINED,):
        low, high = max(low, 0.0), min(high, 1.0)
    return Estimate(median=middle / total, low=low, high=high, n=time.total.n, unit="share")


def _input(case: Case, time: StepTime) -> Cause:
    share, stalled = time.share(*INPUT_PARTS), _stalled_share(case)
    if stalled is not None and share and stalled >= MIN_DISK_SHARE * share:
        return Cause.DISK
    # A buffer is filled before each epoch, which nothing can overlap.
    fills = case.filling_s >= MIN_DETAIL_SHARE * share * time.total.median
    return Cause.OVERLAP if _is_fast_alone(case) and not (case.prefetches or fills) else Cause.INPUT


def _is_fast_alone(case: Case) -> bool:
    """Return whether the pipeline alone is at least as fast as the model."""
    feed, model = case.speed(INPUT_ONLY), case.speed(MODEL_ONLY)
    return bool(feed and model and feed >= model)


def _later_input(case: Case, time: StepTime) -> Finding | None:
    """Return the finding for input that alone is slower than the training that was measured.

    That drew on what was made before it, or on the first and cheaper samples, which the input alone soon leaves behind.
    """
    feed, model = case.speed(INPUT_ONLY), case.speed(MODEL_ONLY)
    if not feed or not model or excess_over(case, time, BASELINE, INPUT_ONLY) is None:
        return None
    share = 1 - feed / model
    if share < MIN_SHARE:
        return None
    facts = {**_use(case), "later": feed}
    found = case.finding(Cause.INPUT, Estimate.exact(share, "share"), facts=facts)
    return replace(found, stages=slowest_stages(case))


def _use(case: Case) -> _Facts:
    """Return how many CPUs the input pipeline uses."""
    serial, one_cpu = is_serial(case), uses_one_cpu(case)
    return {
        "cpus_used": cpus_used(case, INPUT_ONLY),
        "cpus": case.cpus,
        "serial": None if serial is None else float(serial),
        "one_cpu": None if one_cpu is None else float(one_cpu),
        "fast_alone": 1.0 if _is_fast_alone(case) else None,
    }


def _stalled_share(case: Case) -> float | None:
    """Return the share of time in which a task was stalled on I/O, in the container or else on the host."""
    variant = CUSTOM_LOOP if CUSTOM_LOOP in case.variants else BASELINE
    for source in ("cgroup", "host"):
        value = case.host(variant, source, "io_pressure_some_s_per_s")
        if value is not None:
            return min(1.0, value)
    waiting, total = case.host(variant, "host", "cpu_iowait_pct"), case.run.manifest.host_facts.get("cpus")
    # Each waiting task leaves one CPU in I/O wait.
    return min(1.0, waiting / 100 * total) if waiting is not None and isinstance(total, int) else None


def _framework(case: Case, time: StepTime) -> Cause:
    if case.runs_eagerly:
        return Cause.RUN_EAGERLY
    part_s = time.parts[Part.FRAMEWORK].median if Part.FRAMEWORK in time.parts else 0.0
    callbacks_s = case.metric(BASELINE, CALLBACKS)
    details = {
        Cause.CALLBACKS: callbacks_s or 0.0,
        Cause.PYTHON_IN_STEP: case.metric(BASELINE, PYTHON_IN_STEP) or 0.0,
        Cause.RETRACING: case.metric(CUSTOM_LOOP, RETRACING) or 0.0,
    }
    cause, longest_s = max(details.items(), key=lambda each: each[1])
    if longest_s >= MIN_DETAIL_SHARE * part_s:
        return cause
    # With callbacks on every batch, Keras waits for the results of each step even if they are not used.
    return Cause.KERAS_LOOP if callbacks_s is None else Cause.CALLBACKS


def _host(case: Case) -> Cause:
    shares = host_shares(case)
    return max(shares, key=lambda cause: shares[cause], default=Cause.OTHER_PROGRAMS)


def _device(case: Case, time: StepTime, use: PeakUse | None) -> Finding:
    """Return the finding for the device itself: what its time is spent on if that is known, else compute."""
    facts = {name: case.gpu_share(BASELINE, ("gpm", f"{name}_util_pct")) for name in ("dram", "sm", "tensor")}
    facts["peak"] = use.of_measured if use else None
    share = _share(time, Part.COMPUTE)
    if (bits := _unsuitable_bits(case)) is not None:
        return case.finding(Cause.PRECISION, share, Part.COMPUTE, facts={"bits": bits})
    if (found := _on_cpu(case, time) or _update(case, time)) is not None:
        return found
    facts["bandwidth"] = use.needed_bandwidth if use else None
    facts["compiled"] = 1.0 if _compiled(case) else None
    facts["untried_bits"] = _untried_bits(case)
    by_memory = max(facts["dram"] or 0.0, facts["bandwidth"] or 0.0) >= DRAM_LIMIT
    cause = Cause.MEMORY_BANDWIDTH if by_memory else Cause.COMPUTE
    return case.finding(cause, share, Part.COMPUTE, facts=facts)


def _compiled(case: Case) -> bool:
    """Return whether XLA compiles the baseline."""
    return any(
        info.params.get("jit_compile")
        for trial in case.trials
        for info in trial.variants
        if info.variant == BASELINE
    )


def _unsuitable_bits(case: Case) -> float | None:
    """Return the width of the numbers in which the baseline computes if another is faster on the device.

    A GPU is slow in double precision by its design. Half precision on a CPU is slow on some only, so that takes the
    test by a remedy, which proves nothing where it has changed no numbers.
    """
    bits, fix = case.metric(BASELINE, COMPUTE_BITS), case.ratio(RatioKind.OVER_BASELINE, PRECISION_FIX)
    if bits != (64 if case.on_gpu else 16):
        return None
    changed = fix is not None and case.metric(PRECISION_FIX, COMPUTE_BITS) != bits
    if changed and fix is not None:
        return bits if fix.median >= WORTH and fix.low > 1 else None
    return bits if case.on_gpu else None


def _untried_bits(case: Case) -> float | None:
    """Return the width of half precision on a CPU if no other was measured."""
    bits = case.metric(BASELINE, COMPUTE_BITS)
    untried = case.ratio(RatioKind.OVER_BASELINE, PRECISION_FIX) is None
    return bits if bits == 16 and untried and not case.on_gpu else None


def _recurrent(case: Case, time: StepTime) -> Finding | None:
    """Return the finding for recurrent layers that a GPU runs as loops of small kernels; None if others are the limit.

    Such kernels take as long for a larger batch.
    """
    layers, fixed = case.loops_of_kernels, batch_independent_share(case)
    if not layers or (fixed is not None and fixed < MIN_LOOP_SHARE):
        return None
    parts = Part.COMPUTE, Part.LAUNCH
    return replace(case.finding(Cause.RECURRENT, _share(time, *parts), *parts), stages=layers)


def _on_cpu(case: Case, time: StepTime) -> Finding | None:
    """Return the finding for compute that a GPU waits for: layers or operations placed on the CPU."""
    busy = case.gpu_share(MODEL_ONLY, *GPU_UTILISATION)
    compute, launch = time.share(Part.COMPUTE), time.share(Part.LAUNCH)
    model, used = compute + launch, cpus_used(case, MODEL_ONLY)
    if busy is None or not model:
        return None
    if busy <= MIN_ON_CPU and used is not None and used >= MIN_CPUS * len(case.gpus):
        parts: tuple[Part, ...] = (Part.COMPUTE, Part.LAUNCH)
    elif compute >= MIN_ON_CPU * model and busy <= 0.5 * compute / model:
        parts = (Part.COMPUTE,)
    else:
        return None
    return case.finding(Cause.ON_CPU, _share(time, *parts), *parts, facts={"busy": busy})


def _update(case: Case, time: StepTime) -> Finding | None:
    """Return the finding for an optimizer's pass over the weights that takes most of the step; None if it does not.

    It takes the same time for a larger batch while the device is busy, and has a variable large enough for that.
    """
    fixed, (name, elements) = batch_independent_share(case), case.largest_variable()
    if fixed is None or not name:
        return None
    launch, compute = time.share(Part.LAUNCH), time.share(Part.COMPUTE)
    share = min(compute, fixed * (compute + launch) - launch)
    rate = MIN_GPU_UPDATE_RATE if case.on_gpu else MIN_UPDATE_RATE
    if share < MIN_UPDATE_SHARE or elements * UPDATE_BYTES < rate * share * time.total.median:
        return None
    known = replace(_share(time, Part.COMPUTE), median=share, low=share, high=share)
    found = case.finding(Cause.UPDATE, known, Part.COMPUTE, facts={"elements": elements})
    return replace(found, stages=(name,))


def _ablation(case: Case, finding: Finding, time: StepTime | None) -> Ablation | None:
    """Return the measured variant that removes a finding's parts and the fewest others, or None.

    No variant removes Python from a step, or changing batch shapes.
    """
    if time is None or not finding.parts or finding.cause in (Cause.PYTHON_IN_STEP, Cause.RETRACING):
        return None
    if finding.cause is Cause.EPOCHS and finding.stages:
        return _without_callbacks(case, time)
    for variant, parts in REMOVED_PARTS.items():
        if finding.cause is Cause.KERAS_LOOP and variant == WITHOUT_FRAMEWORK:
            continue  # it is without callbacks and eager code only
        gain = case.ratio(RatioKind.OVER_BASELINE, variant)
        if gain is not None and set(finding.parts) <= set(parts):
            # Nothing is predicted where the part itself is measured by its ablation.
            if (Part.LAUNCH in parts and case.on_gpu) or variant == WITHOUT_EPOCHS:
                return Ablation(variant=variant, predicted=None, gain=gain)
            share, removed = _share(time, *parts), _removed_share(case, time, parts)
            down, up = share.median - share.low, share.high - share.median
            predicted = _without(removed, max(0.0, removed - down), removed + up, share.n)
            return Ablation(variant=variant, predicted=predicted, gain=gain)
    return None


def _without(share: float, low: float, high: float, n: int) -> Estimate:
    """Return the predicted speedup from removing a share with this interval."""
    median, down, up = map(speedup_without, (share, low, high))
    return Estimate(median=median, low=down, high=up, n=n, unit="ratio")


def _without_callbacks(case: Case, time: StepTime) -> Ablation | None:
    """Return what is gained without callbacks, whose methods around batches and around epochs go together."""
    gain = case.ratio(RatioKind.OVER_BASELINE, WITHOUT_FRAMEWORK)
    if gain is None or not case.values(WITHOUT_FRAMEWORK, BETWEEN_EPOCHS):
        return None  # it ran through no end of an epoch, of which the baseline's have callbacks
    taken_s = sum(case.epoch_callbacks_s.values()) + (case.metric(BASELINE, CALLBACKS) or 0.0)
    total = time.total
    predicted = _without(taken_s / total.median, taken_s / total.high, taken_s / total.low, total.n)
    return Ablation(variant=WITHOUT_FRAMEWORK, predicted=predicted, gain=gain)


def _removed_share(case: Case, time: StepTime, parts: Sequence[Part]) -> float:
    """Return the share of the step that an ablation removes.

    Only the launch time that multiple steps per call save is removed, no Python inside the step, and only as much
    copy time as the remaining step can hide. Callbacks that save every so many batches do so as often. Keras' loop
    over the steps of a call fetches each batch between them, so that the whole pipeline adds to the step.
    """
    removed, total_s = time.share(*parts), time.total.median
    if parts == (Part.COPY,):
        return min(removed, 1.0 - removed)
    if parts == (Part.FRAMEWORK,) and not case.runs_eagerly:
        callbacks = (case.metric(BASELINE, CALLBACKS) or 0.0) / total_s
        baseline, loop = case.speed(BASELINE), case.speed(CUSTOM_LOOP)
        # Without them, the step waits for input that was prepared beside them.
        most = 1.0 - baseline / loop if baseline and loop and not case.on_gpu else 1.0
        # Keras' own loop stays; what callbacks do not take themselves is mostly that.
        return min(callbacks, max(most, 0.0)) if callbacks >= MIN_DETAIL_SHARE * removed else removed
    calls = [case.variants[name].throughput.median for name in CALLS.among(case.variants)]
    if Part.LAUNCH not in parts or not calls:
        return removed
    baseline, feed = case.speed(BASELINE), case.speed(INPUT_ONLY)
    fastest, fetched = (baseline / speed if baseline and speed else 0.0 for speed in (max(calls), feed))
    python = (case.metric(BASELINE, PYTHON_IN_STEP) or 0.0) / total_s
    saved = max(0.0, time.share(Part.COMPUTE, Part.LAUNCH) + python - fastest)
    kept = python + max(0.0, time.share(Part.LAUNCH) - saved)
    kept += (case.metric(BASELINE, RARE_CALLBACKS) or 0.0) / total_s
    # Hidden behind the baseline's step, but not behind these.
    kept += max(0.0, fetched - time.share(*INPUT_PARTS, Part.COPY))
    return max(0.0, removed - kept)


def _refused(case: Case, finding: Finding) -> str:
    """Return why a change for a cause was left out, of several the one that alters least.

    "" if none was, or others may not have been tried yet.
    """
    if all(trial.status is Status.INTERRUPTED for trial in case.trials):
        return ""
    reasons = {variant: reason for trial in case.trials for variant, reason in trial.left_out.items()}
    aimed = {
        variant: rule.safety
        for variant in reasons
        if (rule := rule_of(variant)) and rule.aim in finding.cause.aims
    }
    return reasons[min(aimed, key=lambda each: list(Safety).index(aimed[each]))] if aimed else ""


def _remedy(case: Case, finding: Finding) -> Remedy | None:
    """Return the remedy for a cause with the largest gain, else tuned; None if neither was measured."""
    aims = finding.cause.aims
    found = [
        (rule, variant, gain)
        for variant in case.variants
        if (rule := rule_of(variant))
        and rule.aim in aims
        and (gain := case.ratio(RatioKind.OVER_BASELINE, variant)) is not None
    ]
    if found:
        # What changes training is named first only if nothing else gains.
        _, best, gain = max(
            found,
            key=lambda each: (
                each[2].median >= WORTH and each[0].safety is not Safety.TRAINING,
                each[2].median,
            ),
        )
        return Remedy(variant=best, gain=gain, alone=True)
    tuned = case.ratio(RatioKind.OVER_BASELINE, TUNED) if aims else None
    return None if tuned is None else Remedy(variant=TUNED, gain=tuned, alone=False)
