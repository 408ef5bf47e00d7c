"""Variants of an inference workload: throughput in windows, then the latency of single requests."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from workloads.driver import building, steps
from workloads.driver.job import Job
from workloads.driver.latency import Client, Serve
from workloads.driver.resident import drive, first_batch
from workloads.driver.tuning import factor
from workloads.protocol import BASELINE, BATCH_PREFIX, BUILD, MODEL_ONLY, TUNED


def infer(job: Job) -> None:
    """Run Keras' predict_on_batch or a compiled forward pass on one batch repeatedly, then time requests.

    A request goes from samples in host memory to predictions in host memory.
    """
    model, images = _built(job)
    serve = (_resident if job.params["feed"] == "resident" else _predict)(job, model, images)
    requests = job.workload.requests
    if requests is None or job.variant not in (BASELINE, TUNED):
        Client(job, serve, images).single_stream(len(images))
        return
    sizes = (requests.compiled_batch_sizes if job.params["jit_compile"] else ()) or requests.batch_sizes
    pool = np.asarray(first_batch(job, sizes[-1])[0])
    # Repeats samples if there are too few for a batch.
    pool = np.resize(pool, (sizes[-1], *pool.shape[1:]))
    Client(job, serve, pool).measure(sizes, requests.bounds_ms)


def model_only(job: Job) -> None:
    """Run the baseline's model on a batch in device memory, to measure the cost of copies."""
    model, images = _built(job, times=factor(job.variant, BATCH_PREFIX))
    serve = _resident(job, model, images)
    if job.variant == MODEL_ONLY:
        Client(job, serve, images).single_stream(len(images))


def _built(job: Job, times: int = 1) -> tuple[Any, Any]:
    """Return the model, and a batch in host memory that is `times` as large."""
    began = job.meter.clock()
    with tf.device(job.devices[0]):
        model = building.build(job.loaded.model, job.params, strategy=None, seed=job.spec.seed)
    images = np.concatenate([np.asarray(first_batch(job)[0])] * times)
    job.meter.phase(BUILD, began)
    return model, images


def _predict(job: Job, model: Any, images: Any) -> Serve:
    job.meter.begin()
    going = True
    while going:
        model.predict_on_batch(images)
        going = job.meter.tick(1, len(images))
    serve: Serve = model.predict_on_batch
    return serve


def _resident(job: Job, model: Any, images: Any) -> Serve:
    constant = bool(job.params.get("constant_weights"))
    forward = steps.compile_forward(model, jit=bool(job.params["jit_compile"]), constant_weights=constant)
    with tf.device(job.devices[0]):
        batch = tf.identity(tf.convert_to_tensor(images))
        if job.params.get("half_images"):
            batch = tf.cast(batch, model.compute_dtype)
        drive(job.meter, lambda: forward(batch), steps=1, samples=len(images))

    def serve(batch: Any) -> None:
        with tf.device(job.devices[0]):
            forward(tf.convert_to_tensor(batch)).numpy()

    return serve
