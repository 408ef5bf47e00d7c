"""Run one trial with TensorFlow: set up devices and data, and measure the variants one after the other."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from workloads.driver import (
    building,
    devices,
    draining,
    inference,
    multi_worker,
    resident,
    step_variants,
    training,
    tuning,
    workload_file,
)
from workloads.driver.failing_variants import measure_each
from workloads.driver.job import Job
from workloads.driver.timing import Meter, local_readings
from workloads.protocol import (
    ARRAYS,
    BASELINE,
    BATCH_PREFIX,
    CALLS_PREFIX,
    CUSTOM_LOOP,
    DATA,
    HOST_FED,
    IMPORT,
    LONGEST_REASON,
    MODEL_ONLY,
    OPTIMIZATION_PREFIX,
    PARALLEL_INPUT,
    TUNED,
    WITHOUT_COPY,
    WITHOUT_FRAMEWORK,
    WITHOUT_INPUT,
    WITHOUT_LAUNCH,
    EventWriter,
    NoGpuError,
    Spec,
    measures_speed,
)

# Larger batches and more steps per call are skipped if a call would take longer.
LONGEST_CALL_S = 1.5
# Parts below this share of a step are not investigated further; xprof calls 5 % moderate.
RELEVANT_SHARE = 0.05


def run(spec: Spec, events: EventWriter, began_ns: int) -> None:
    """Run the trial that `spec` describes.

    Args:
        began_ns: when the import of TensorFlow began.

    Raises:
        NoGpuError: the requested GPUs are not available.
    """
    names = devices.select(spec.device, spec.gpus)
    strategy = None
    # Collectives can be set up only before anything has run.
    if spec.workers:
        strategy = multi_worker.strategy(spec.workers)
    elif len(names) > 1:
        strategy = tf.distribute.MirroredStrategy(names)
    devices.prove(names)
    loaded = workload_file.load(spec.file, spec.workload)
    began = events.phase(IMPORT, began_ns)
    events.write("facts", facts=devices.facts(names))
    train, test = load_arrays(loaded, spec)
    events.phase(DATA, began)
    job = Job(
        loaded=loaded, spec=spec, events=events, devices=names, strategy=strategy, train=train, test=test
    )
    if job.workload.pipeline:
        workload_file.check_stages(job.workload, job.of(BASELINE).stages())
    run_variants(job)
    if spec.workers:
        multi_worker.report_collective(job.of(spec.variants[0]))
    if loaded.facts is not None:
        _report_facts(job)


def load_arrays(loaded: workload_file.Loaded, spec: Spec) -> tuple[Any, Any]:
    """Load and preprocess the mounted arrays; (None, None) for workloads with their own pipeline."""
    if loaded.workload.pipeline:
        return None, None
    arrays = {name: np.load(Path(spec.data_dir) / f"{name}.npy", mmap_mode="r") for name in ARRAYS}
    train, test = loaded.data(arrays, tuning.variant_params(loaded.workload, spec, spec.variants[0]))
    return workload_file.check_split(train, "data"), workload_file.check_split(test, "data")


def run_variants(job: Job) -> None:
    """Measure all applicable variants, one after the other."""
    spec = job.spec
    # Otherwise one device would be measured and reported as all of them.
    if job.workload.task == "infer" and (spec.gpus > 1 or spec.workers):
        requested = f"{spec.workers} workers" if spec.workers else f"{spec.gpus} GPUs"
        raise NoGpuError(f"{requested} were requested, but inference uses one device. Try --device gpu0.")
    measure_each(spec.variants, partial(_measure_or_retry, job), job.events)


def _variant_spec(spec: Spec, variant: str) -> Spec:
    """Return the spec with the windows and warm-up of one variant."""
    if measures_speed(variant):
        return spec
    return replace(
        spec,
        window_s=spec.analysis_window_s or spec.window_s,
        windows=spec.analysis_windows or spec.windows,
        warmup_s=spec.analysis_warmup_s or spec.warmup_s,
        variant_s=spec.analysis_variant_s or spec.variant_s,
    )


def _needless(job: Job, variant: str) -> str:
    """Return why a variant is not informative here, given the earlier results; "" if it is."""
    if tuning.needless(job.workload, job.spec, variant):
        return "not informative for this workload and device"
    step_ns = job.shared.step_ns
    base, model = step_ns.get(BASELINE, 0.0), step_ns.get(MODEL_ONLY, 0.0)
    times = max(tuning.factor(variant, BATCH_PREFIX), tuning.factor(variant, CALLS_PREFIX))
    if times > 1 and times * model > LONGEST_CALL_S * 1e9:
        return "a call would take too long"
    if variant == WITHOUT_FRAMEWORK and not (job.shared.eager or job.shared.callbacks):
        return "Keras fit compiles the step and there are no per-batch callbacks"
    if not base or not model or job.spec.steps:
        return ""
    if variant == WITHOUT_LAUNCH and job.shared.eager:
        return "Keras cannot run several eager steps per call"
    if variant == WITHOUT_LAUNCH:
        calls = min((ns for name, ns in step_ns.items() if name.startswith(CALLS_PREFIX)), default=None)
        if calls is not None and model - calls < RELEVANT_SHARE * base:
            return "several steps per call save little"
    if variant == WITHOUT_COPY and step_ns.get(HOST_FED, model * 2) - model < RELEVANT_SHARE * base:
        return "copying costs little"
    input_related = variant in (PARALLEL_INPUT, WITHOUT_INPUT) or draining.drains_partly(variant)
    waits = job.shared.wait_share
    # What the custom loop loses relative to the same step with a ready batch.
    lost = (min(base, step_ns.get(CUSTOM_LOOP, base)) - step_ns.get(HOST_FED, model)) / base
    if input_related and waits is not None and max(waits, lost) < RELEVANT_SHARE:
        return "input costs little"
    return ""


def _measure_or_retry(job: Job, variant: str) -> None:
    """Measure a variant; unless it is the baseline, retry without XLA if XLA cannot compile it."""
    if reason := _needless(job, variant):
        job.events.needless(variant, reason)
        return
    if reason := tuning.not_applicable(job.workload, job.spec, variant):
        job.events.left_out(variant, reason)
        return
    job = job.of(variant)
    params = {**job.params, "steps_per_execution": _steps_per_call(job)}
    if job.shared.eager and variant.startswith((TUNED, OPTIMIZATION_PREFIX)):
        params["run_eagerly"] = False
    try:
        _measure(replace(job, params=params))
    except (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError, tf.errors.NotFoundError) as error:
        if variant == BASELINE or not params["jit_compile"]:
            raise
        reason = str(error).strip().split("\n")[0][:LONGEST_REASON]
        job.events.warning(f"{variant}: measured without XLA, which failed to compile it: {reason}")
        _measure(replace(job, params={**params, "jit_compile": False}))


def _steps_per_call(job: Job) -> int:
    """Return the steps per call, limited by LONGEST_CALL_S if the workload does not declare them."""
    per_call: int = job.params["steps_per_execution"]
    step_ns = job.shared.step_ns.get(BASELINE)
    undeclared = job.variant == WITHOUT_LAUNCH or (job.variant == TUNED and not job.workload.tuned)
    if not undeclared or not step_ns or job.params["feed"] != "fit":
        return per_call
    return max(1, min(per_call, int(LONGEST_CALL_S * 1e9 / step_ns)))


def _measure(job: Job) -> None:
    workload, spec, variant, params = job.workload, job.spec, job.variant, job.params
    changes = tuning.variant_changes(workload, spec, variant, params)
    job.events.write(
        "variant", variant=variant, params=params, changes=[asdict(change) for change in changes]
    )
    if spec.device == "cpu" and params["precision"] in ("fp16", "bf16"):
        half = params["precision"]
        job.events.warning(f"{variant}: precision {half} is emulated on most CPUs and can be very slow.")
    # Process-wide, so another variant may have changed it.
    building.set_precision(params["precision"])
    meter = Meter(
        variant,
        spec=_variant_spec(spec, variant),
        events=job.events,
        # With several workers TensorFlow's function fails, because it tries to reach the other workers'
        # devices.
        synchronise=partial(devices.drain, job.devices) if spec.workers else devices.synchronise,
        agree=multi_worker.agreement(job.strategy) if spec.workers else local_readings,
        # Without a dataset there are no epochs.
        full=spec.full and measures_speed(variant) and workload.task == "train" and workload.data.train > 0,
        whole_samples=params["epochs"] * (workload.samples_per_epoch or workload.data.train),
    )
    if params.get("storage") == "ram":
        began = meter.clock()
        job.data_dir()
        meter.phase(DATA, began)
    _run(replace(job, meter=meter))
    if meter.steps:
        job.shared.step_ns[variant] = meter.step_ns


def _run(job: Job) -> None:
    """Run a variant until its meter ends it."""
    variant, infers = job.variant, job.workload.task == "infer"
    if draining.drains_input(variant):
        draining.drain(job)
    elif variant == MODEL_ONLY and job.strategy is not None:
        resident.mirrored_batch(job)
    elif variant in (MODEL_ONLY, HOST_FED) or variant.startswith(BATCH_PREFIX):
        inference.model_only(job) if infers else step_variants.one_batch(job)
    elif variant == CUSTOM_LOOP:
        step_variants.custom_loop(job)
    elif variant.startswith(CALLS_PREFIX):
        step_variants.many_a_call(job)
    else:
        inference.infer(job) if infers else training.train(job)


def _report_facts(job: Job) -> None:
    """Write the workload's facts for each variant that measures speed; a failure is only a warning."""
    for variant in filter(measures_speed, job.shared.step_ns):
        params = {**job.of(variant).params, "device": job.devices[0]}
        try:
            for name, text in job.loaded.facts(params).items():
                job.events.write("fact", variant=variant, name=name, text=text)
        except Exception as error:  # workloads can raise anything
            job.events.warning(f"The workload's facts() failed: {type(error).__name__}: {error}")
