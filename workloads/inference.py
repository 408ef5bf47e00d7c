"""The variants of an inference workload: throughput in windows, and the latency of single requests apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from workloads import building, steps
from workloads.job import Job
from workloads.latency import Client, Serve
from workloads.protocol import BASELINE, BATCH_PREFIX, BUILD, MODEL_ONLY, TUNED
from workloads.resident import first_batch
from workloads.stepwise import factor
from workloads.timing import Meter


def infer(job: Job, variant: str, params: Mapping[str, Any], meter: Meter) -> None:
    """Run baseline (Keras' predict_on_batch), or a compiled forward pass, on a batch again and again.

    Then time requests, from samples in host memory to predictions in host memory.
    """
    model, images = _built(job, params, meter)
    serve = (_resident if params["feed"] == "resident" else _predict)(job, params, meter, model, images)
    wanted = job.workload.requests
    if wanted is None or variant not in (BASELINE, TUNED):
        Client(job, variant, serve, images).single_stream(len(images))
        return
    sizes = (wanted.compiled_batch_sizes if params["jit_compile"] else ()) or wanted.batch_sizes
    pool = np.asarray(first_batch(job, {**params, "batch_size": sizes[-1]})[0])
    Client(job, variant, serve, pool).measure(sizes, wanted.bounds_ms)


def model_only(job: Job, variant: str, params: Mapping[str, Any], meter: Meter) -> None:
    """Run baseline's model on a batch that lies on the device: what the copies cost is the difference."""
    model, images = _built(job, params, meter, times=factor(variant, BATCH_PREFIX))
    serve = _resident(job, params, meter, model, images)
    if variant == MODEL_ONLY:
        Client(job, variant, serve, images).single_stream(len(images))


def _built(job: Job, params: Mapping[str, Any], meter: Meter, times: int = 1) -> tuple[Any, Any]:
    """Return the model and a batch that many times as large, in host memory."""
    began = meter.now()
    with tf.device(job.devices[0]):
        model = building.build(job.loaded.model, params, strategy=None, seed=job.spec.seed)
    images = np.concatenate([np.asarray(first_batch(job, params)[0])] * times)
    meter.phase(BUILD, began)
    return model, images


def _predict(job: Job, params: Mapping[str, Any], meter: Meter, model: Any, images: Any) -> Serve:
    del job
    meter.begin()
    while True:
        model.predict_on_batch(images)
        if not meter.tick(1, params["batch_size"], -1):
            serve: Serve = model.predict_on_batch
            return serve


def _resident(job: Job, params: Mapping[str, Any], meter: Meter, model: Any, images: Any) -> Serve:
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
