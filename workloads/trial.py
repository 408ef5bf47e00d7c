"""One trial: devices, data, and the legs, measured window by window in turn."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from workloads import author, building, devices, inference, legs, together, tuning
from workloads.job import Job
from workloads.protocol import (
    AS_WRITTEN,
    DATA,
    IMPORT,
    INPUT_ONLY,
    MODEL_ONLY,
    RUNG_PREFIX,
    STAGE_PREFIX,
    TUNED,
    EventWriter,
    Spec,
)
from workloads.timing import Meter, alone_decides
from workloads.turns import measure_in_turn

ARRAYS = ("x_train", "y_train", "x_test", "y_test")


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
    loaded = author.load(spec.workload, spec.file)
    began = _phase(events, IMPORT, began_ns)
    events.write("facts", facts={**devices.facts(names, spec.seed), "workload": loaded.workload.name})
    train, test = load_arrays(loaded, spec)
    _phase(events, DATA, began)
    job = Job(
        author=loaded, spec=spec, events=events, devices=names, strategy=strategy, train=train, test=test
    )
    if loaded.dataset is not None:
        written = tuning.leg_params(loaded.workload, spec, AS_WRITTEN, pipeline=True)
        author.check_stages(loaded.workload, job.stages(written))
    run_legs(job)
    if spec.workers:
        together.report_collective(job)
    _facts(job)
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
    return loaded.data(arrays, tuning.leg_params(loaded.workload, spec, spec.legs[0], pipeline=False))


def run_legs(job: Job) -> None:
    """Measure every leg that makes sense here, in turn.

    A rung that does not fit into the device's memory is left out with a warning.
    """
    pipeline = job.author.dataset is not None
    bodies = {}
    for leg in job.spec.legs:
        if reason := tuning.unfit(job.author.workload, job.spec, leg, pipeline=pipeline):
            job.events.write("warning", message=reason)
        else:
            bodies[leg] = _body(job, leg)

    def failed(leg: str, error: Exception) -> bool:
        left_out = isinstance(error, tf.errors.ResourceExhaustedError) and leg.startswith(RUNG_PREFIX)
        message = f"{leg} failed: {type(error).__name__}: {error}"
        if left_out:
            message = f"{leg} was left out: the device's memory does not suffice."
        job.events.write("warning", message=message)
        return not left_out

    measure_in_turn(bodies, windows=job.spec.windows, failed=failed)


def _body(job: Job, leg: str) -> Callable[[Callable[[], Any]], None]:
    """Return the code of one leg, as turns.Pausable runs it."""
    workload, spec = job.author.workload, job.spec
    pipeline = job.author.dataset is not None
    alone = leg in (INPUT_ONLY, MODEL_ONLY) or leg.startswith(STAGE_PREFIX)
    # Nothing can be trained wholly where there is no dataset to go through.
    whole = spec.full and not alone and workload.task == "train" and workload.data.train > 0

    def body(pause: Callable[[], Any]) -> None:
        params = tuning.leg_params(workload, spec, leg, pipeline=pipeline)
        changes = tuning.leg_changes(workload, spec, leg, pipeline=pipeline)
        job.events.write("leg", leg=leg, params=params, changes=[asdict(change) for change in changes])

        if spec.device == "cpu" and params["precision"] in ("fp16", "bf16"):
            text = f"{leg}: precision {params['precision']} is emulated on most CPUs and can be very slow."
            job.events.write("warning", message=text)

        def pause_and_restore() -> bool:
            go_on = bool(pause())
            # The one switch that legs share; another leg may have turned it since.
            building.set_precision(params["precision"])
            return go_on

        meter = Meter(
            leg,
            spec=spec,
            events=job.events,
            # Among several workers TensorFlow's own refuses: it wants to reach the others' devices too.
            synchronise=partial(devices.drain, list(job.devices)) if spec.workers else devices.synchronise,
            agree=together.agreement(job.strategy) if spec.workers else alone_decides,
            pause=pause_and_restore,
            full=whole,
        )
        if params.get("storage") == "ram":
            began = meter.now()
            job.data_dir(params)
            meter.phase(DATA, began)
        _kind(leg, workload.task)(job, leg, params, meter)

    return body


def _kind(leg: str, task: str) -> Callable[..., None]:
    if leg == INPUT_ONLY or leg.startswith(STAGE_PREFIX):
        return legs.input_only
    if leg == MODEL_ONLY:
        return inference.model_only if task == "infer" else legs.model_only
    return inference.infer if task == "infer" else legs.train


def _facts(job: Job) -> None:
    """Ask the workload what it knows of each leg that ran its whole model."""
    workload, spec = job.author.workload, job.spec
    pipeline = job.pipeline
    for leg in spec.legs:
        whole = leg in (AS_WRITTEN, TUNED) or leg.startswith(RUNG_PREFIX)
        if job.author.facts is None or not whole or tuning.unfit(workload, spec, leg, pipeline=pipeline):
            continue
        params = tuning.leg_params(workload, spec, leg, pipeline=pipeline)
        for name, text in job.author.facts({**params, "device": job.devices[0]}).items():
            job.events.write("fact", leg=leg, name=name, text=text)


def _extra_metrics(job: Job) -> None:
    if job.author.metrics is None:
        return
    params = tuning.leg_params(job.author.workload, job.spec, job.spec.legs[0], pipeline=True)
    for name, (value, unit) in job.author.metrics({**params, "device": job.devices[0]}).items():
        job.metric("", name, value, unit)


def _phase(events: EventWriter, name: str, start_ns: int) -> int:
    now = time.monotonic_ns()
    events.write("phase", name=name, leg="", start_ns=start_ns, end_ns=now)
    return now
