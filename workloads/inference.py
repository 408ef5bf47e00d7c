"""The legs of an inference workload: throughput in windows, and the latency of single requests apart."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from workloads import building, steps
from workloads.job import Job
from workloads.protocol import AS_WRITTEN, BUILD
from workloads.resident import first_batch
from workloads.timing import Meter

# 99th percentiles need at least a hundred requests; a slow device is given less, and no p99 then.
REQUESTS = 200
FEWEST_REQUESTS = 10
QUANTILES = (50, 90, 99)


def infer(job: Job, leg: str, params: Mapping[str, Any], meter: Meter) -> None:
    """Run as-written (Keras' predict_on_batch), or a compiled forward pass, on a batch again and again."""
    began = meter.now()
    factory = job.author.model if leg == AS_WRITTEN else job.author.tuned_model
    with tf.device(job.devices[0]):
        model = building.build(factory, params, strategy=None, seed=job.spec.seed)
    images = np.asarray(first_batch(job, params)[0])
    meter.phase(BUILD, began)
    if params["feed"] == "resident":
        request = _resident(job, params, meter, model, images)
    else:
        request = _predict(params, meter, model, images)
    _latency(job, leg, request)


def _predict(params: Mapping[str, Any], meter: Meter, model: Any, images: Any) -> Callable[[], Any]:
    def request() -> Any:
        return model.predict_on_batch(images)

    meter.begin()
    while True:
        request()
        if not meter.tick(1, params["batch_size"], -1):
            return request


def _resident(
    job: Job, params: Mapping[str, Any], meter: Meter, model: Any, images: Any
) -> Callable[[], Any]:
    forward = steps.compile_forward(model, jit=bool(params["jit_compile"]))
    with tf.device(job.devices[0]):
        batch = tf.identity(tf.convert_to_tensor(images))

        def request() -> Any:
            return forward(tf.convert_to_tensor(images)).numpy()

        meter.begin()
        pending = None
        while True:
            result = forward(batch)
            if pending is not None:
                pending.numpy()
            pending = result
            if not meter.tick(1, params["batch_size"], 0):
                return request


def model_only(job: Job, leg: str, params: Mapping[str, Any], meter: Meter) -> None:
    """Run as-written's model on a batch that lies on the device: what the copies cost is the difference."""
    began = meter.now()
    with tf.device(job.devices[0]):
        model = building.build(job.author.model, params, strategy=None, seed=job.spec.seed)
    images = np.asarray(first_batch(job, params)[0])
    meter.phase(BUILD, began)
    _resident(job, params, meter, model, images)


def _latency(job: Job, leg: str, request: Callable[[], Any]) -> None:
    """Time requests one by one, from a batch in host memory to predictions in host memory."""
    budget_s = max(job.spec.window_s, 0.1)
    times: list[float] = []
    request()  # copies from the host were not part of the windows, and are traced here
    began = time.monotonic()
    while len(times) < FEWEST_REQUESTS or (len(times) < REQUESTS and time.monotonic() - began < budget_s):
        start = time.monotonic_ns()
        request()
        times.append((time.monotonic_ns() - start) / 1e6)
    for quantile in QUANTILES:
        if len(times) * (100 - quantile) >= 100:
            job.metric(leg, f"latency_p{quantile}", float(np.percentile(times, quantile)), "ms")
    job.metric(leg, "latency_requests", len(times), "requests")
