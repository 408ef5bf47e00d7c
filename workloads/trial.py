"""One trial: devices, data, and the variants, measured window by window in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from workloads import author, building, devices, draining, inference, stepwise, together, tuning, variants
from workloads.job import Job
from workloads.protocol import (
    ARRAYS,
    BASELINE,
    BATCH_PREFIX,
    CALLS_PREFIX,
    CUSTOM_LOOP,
    DATA,
    HOST_FED,
    IMPORT,
    INPUT_ONLY,
    MODEL_ONLY,
    OPTIMIZATION_PREFIX,
    EventWriter,
    NoGpuError,
    Spec,
    measures_speed,
)
from workloads.timing import Meter, alone_decides
from workloads.turns import measure_in_turn

# Larger batches and more steps in a call are not tried where a call would take longer.
LONGEST_CALL_S = 1.5


def run(spec: Spec, events: EventWriter, began_ns: int) -> None:
    """Run all that `spec` asks for.

    Args:
        began_ns: when the import of TensorFlow began.

    Raises:
        NoGpuError: the GPUs that were asked for are not there.
    """
    names = devices.select(spec.device, spec.gpus)
    # Collectives can be set up only before anything has run.
    strategy = together.strategy(spec.workers) if spec.workers else devices.strategy_for(names)
    devices.prove(names)
    loaded = author.load(spec.file, spec.workload)
    began = events.phase(IMPORT, began_ns)
    events.write("facts", facts={**devices.facts(names, spec.seed), "workload": loaded.workload.name})
    train, test = load_arrays(loaded, spec)
    events.phase(DATA, began)
    job = Job(
        author=loaded, spec=spec, events=events, devices=names, strategy=strategy, train=train, test=test
    )
    if loaded.dataset is not None:
        written = tuning.variant_params(loaded.workload, spec, BASELINE, pipeline=True)
        author.check_stages(loaded.workload, job.stages(written))
    ran = run_variants(job)
    if spec.workers:
        together.report_collective(job)
    _facts(job, ran)
    _extra_metrics(job)


def load_arrays(loaded: author.Author, spec: Spec) -> tuple[Any, Any]:
    """Load and preprocess the mounted arrays; (None, None) for workloads with a pipeline of their own.

    Raises:
        ValueError: the spec names no data.
    """
    if loaded.dataset is not None:
        return None, None
    if not spec.data_dir:
        raise ValueError(f"{loaded.workload.name} trains on arrays, but the spec has no data_dir.")
    arrays = {name: np.load(Path(spec.data_dir) / f"{name}.npy", mmap_mode="r") for name in ARRAYS}
    return loaded.data(arrays, tuning.variant_params(loaded.workload, spec, spec.variants[0], pipeline=False))


def run_variants(job: Job) -> list[str]:
    """Measure every variant that makes sense here, in turn; return those that were measured.

    An optimization that does not fit into the device's memory is left out with a warning.

    Raises:
        NoGpuError: inference on several devices: one of them would be measured, and called all.
    """
    spec = job.spec
    if job.author.workload.task == "infer" and (spec.gpus > 1 or spec.workers):
        among = f"{spec.workers} workers" if spec.workers else f"{spec.gpus} GPUs"
        raise NoGpuError(
            f"{among} were asked for; inference runs on one device at a time: try --device gpu0."
        )
    pipeline = job.author.dataset is not None
    bodies = {}
    for variant in job.spec.variants:
        if not tuning.applies(job.author.workload, job.spec, variant, pipeline=pipeline):
            continue
        if reason := tuning.unfit(job.author.workload, job.spec, variant, pipeline=pipeline):
            job.events.write("warning", message=reason)
        else:
            bodies[variant] = _body(job, variant)
    dropped = set()

    def failed(variant: str, error: Exception) -> bool:
        dropped.add(variant)
        spare = variant.startswith((OPTIMIZATION_PREFIX, BATCH_PREFIX))
        if isinstance(error, tf.errors.ResourceExhaustedError) and spare:
            job.events.write(
                "warning", message=f"{variant} was left out: the device's memory does not suffice."
            )
            return False
        job.events.write("warning", message=f"{variant} failed: {type(error).__name__}: {error}")
        # What only serves the verdict must not cost the benchmark its trial.
        return measures_speed(variant) or variant in (INPUT_ONLY, MODEL_ONLY)

    measure_in_turn(
        bodies,
        windows={variant: _variant_spec(job.spec, variant).windows for variant in bodies},
        failed=failed,
    )
    return [variant for variant in bodies if variant not in dropped]


def _variant_spec(spec: Spec, variant: str) -> Spec:
    """Return the spec with the windows and warm-up of one variant."""
    if measures_speed(variant):
        return spec
    return replace(
        spec,
        window_s=spec.analysis_window_s or spec.window_s,
        windows=spec.analysis_windows or spec.windows,
        warmup_s=spec.analysis_warmup_s or spec.warmup_s,
    )


def _too_slow(job: Job, variant: str) -> bool:
    times = max(stepwise.factor(variant, BATCH_PREFIX), stepwise.factor(variant, CALLS_PREFIX))
    return times > 1 and times * job.shared.step_ns.get(MODEL_ONLY, 0.0) > LONGEST_CALL_S * 1e9


def _body(job: Job, variant: str) -> Callable[[Callable[[], Any]], None]:
    """Return the code of one variant, as turns.Pausable runs it."""
    workload, spec = job.author.workload, job.spec
    pipeline = job.author.dataset is not None
    # Nothing can be trained wholly where there is no dataset to go through.
    whole = spec.full and measures_speed(variant) and workload.task == "train" and workload.data.train > 0

    def body(pause: Callable[[], Any]) -> None:
        if _too_slow(job, variant):
            return
        params = tuning.variant_params(workload, spec, variant, pipeline=pipeline)
        changes = tuning.variant_changes(workload, spec, variant, pipeline=pipeline)
        job.events.write(
            "variant", variant=variant, params=params, changes=[asdict(change) for change in changes]
        )

        if spec.device == "cpu" and params["precision"] in ("fp16", "bf16"):
            text = (
                f"{variant}: precision {params['precision']} is emulated on most CPUs and can be very slow."
            )
            job.events.write("warning", message=text)

        def pause_and_restore() -> bool:
            job.shared.step_ns[variant] = meter.step_ns
            go_on = bool(pause())
            # The one switch that variants share; another variant may have turned it since.
            building.set_precision(params["precision"])
            return go_on

        meter = Meter(
            variant,
            spec=_variant_spec(spec, variant),
            events=job.events,
            # Among several workers TensorFlow's own refuses: it wants to reach the others' devices too.
            synchronise=partial(devices.drain, list(job.devices)) if spec.workers else devices.synchronise,
            agree=together.agreement(job.strategy) if spec.workers else alone_decides,
            pause=pause_and_restore,
            full=whole,
            whole_samples=params["epochs"] * (workload.samples_per_epoch or workload.data.train),
            warn=measures_speed(variant),
        )
        if params.get("storage") == "ram":
            began = meter.now()
            job.data_dir(params)
            meter.phase(DATA, began)
        _kind(job, variant)(job, variant, params, meter)

    return body


def _kind(job: Job, variant: str) -> Callable[..., None]:
    infers = job.author.workload.task == "infer"
    if draining.drained(variant):
        return draining.drain
    if variant == MODEL_ONLY and job.strategy is not None:
        return variants.model_only
    if variant in (MODEL_ONLY, HOST_FED) or variant.startswith(BATCH_PREFIX):
        return inference.model_only if infers else stepwise.one_batch
    if variant == CUSTOM_LOOP:
        return stepwise.custom_loop
    if variant.startswith(CALLS_PREFIX):
        return stepwise.many_a_call
    return inference.infer if infers else variants.train


@contextmanager
def _forgiven(job: Job, function: str) -> Iterator[None]:
    """Make what a workload's function raises a warning: it only describes a trial that has been measured."""
    try:
        yield
    except Exception as error:  # whatever a workload raises
        text = f"The workload's {function}() failed: {type(error).__name__}: {error}"
        job.events.write("warning", message=text)


def _facts(job: Job, ran: Sequence[str]) -> None:
    """Ask the workload what it knows of each variant of `ran` that measured its whole model."""
    if job.author.facts is None:
        return
    for variant in filter(measures_speed, ran):
        params = tuning.variant_params(job.author.workload, job.spec, variant, pipeline=job.pipeline)
        with _forgiven(job, "facts"):
            for name, text in job.author.facts({**params, "device": job.devices[0]}).items():
                job.events.write("fact", variant=variant, name=name, text=text)


def _extra_metrics(job: Job) -> None:
    if job.author.metrics is None:
        return
    params = tuning.variant_params(job.author.workload, job.spec, job.spec.variants[0], pipeline=True)
    with _forgiven(job, "metrics"):
        for name, (value, unit) in job.author.metrics(
            {**params, "device": job.devices[0], "task": job.author.workload.task}
        ).items():
            job.events.metric("", name, value, unit)
