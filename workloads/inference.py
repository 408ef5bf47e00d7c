"""The variants of an inference workload: throughput in windows, and the latency of single requests apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from workloads import building, requests, steps
from workloads.job import Job
from workloads.protocol import BASELINE, BATCH_PREFIX, BUILD, MODEL_ONLY, TUNED
from workloads.resident import first_batch
from workloads.stepwise import factor
from workloads.timing import Meter


def infer(job: Job, variant: str, params: Mapping[str, Any], meter: Meter) -> None:
    """Run baseline (Keras' predict_on_batch), or a compiled forward pass, on a batch again and again."""
    began = meter.now()
    model, images = _built(job, params)
    meter.phase(BUILD, began)
    if params["feed"] == "resident":
        serve = _resident(job, params, meter, model, images)
    else:
        serve = _predict(params, meter, model, images)
    _ask(job, variant, params, serve, images)


def _built(job: Job, params: Mapping[str, Any]) -> tuple[Any, Any]:
    with tf.device(job.devices[0]):
        model = building.build(job.loaded.model, params, strategy=None, seed=job.spec.seed)
    return model, np.asarray(first_batch(job, params)[0])


def _predict(params: Mapping[str, Any], meter: Meter, model: Any, images: Any) -> requests.Serve:
    meter.begin()
    while True:
        model.predict_on_batch(images)
        if not meter.tick(1, params["batch_size"], -1):
            serve: requests.Serve = model.predict_on_batch
            return serve


def _resident(job: Job, params: Mapping[str, Any], meter: Meter, model: Any, images: Any) -> requests.Serve:
    constant = bool(params.get("constant_weights"))
    forward = steps.compile_forward(model, jit=bool(params["jit_compile"]), constant_weights=constant)
    with tf.device(job.devices[0]):
        batch = tf.identity(tf.convert_to_tensor(images))
        if params.get("half_images"):
            batch = tf.cast(batch, model.compute_dtype)
        meter.begin()
        pending = None
        while True:
            result = forward(batch)
            if pending is not None:
                pending.numpy()
            pending = result
            if not meter.tick(1, len(images), 0):
                break

    def serve(batch: Any) -> None:
        with tf.device(job.devices[0]):
            forward(tf.convert_to_tensor(batch)).numpy()

    return serve


def model_only(job: Job, variant: str, params: Mapping[str, Any], meter: Meter) -> None:
    """Run baseline's model on a batch that lies on the device: what the copies cost is the difference."""
    began = meter.now()
    model, images = _built(job, params)
    images = np.concatenate([images] * factor(variant, BATCH_PREFIX))
    meter.phase(BUILD, began)
    serve = _resident(job, params, meter, model, images)
    if variant == MODEL_ONLY:
        requests.single_stream(job, variant, serve, images)


def _ask(job: Job, variant: str, params: Mapping[str, Any], serve: requests.Serve, images: Any) -> None:
    """Time requests, from samples in host memory to predictions in host memory."""
    wanted = job.workload.requests
    if wanted is None or variant not in (BASELINE, TUNED):
        requests.single_stream(job, variant, serve, images)
        return
    compiled = wanted.compiled_batch_sizes if params["jit_compile"] else ()
    sizes = compiled or wanted.batch_sizes
    pool = np.asarray(first_batch(job, {**params, "batch_size": sizes[-1]})[0])
    requests.measure(job, variant, serve, pool, sizes)
