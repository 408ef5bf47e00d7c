"""Variants of a script that serves requests: throughput in windows, then the latency of single requests."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from workloads.driver import steps
from workloads.driver.call import Call, rows
from workloads.driver.job import Job
from workloads.driver.latency import Client
from workloads.driver.script import ScriptError
from workloads.driver.step_variants import drive
from workloads.driver.variants import factor
from workloads.protocol import BASELINE, BATCH_PREFIX, BUILD, MODEL_ONLY


def as_written(job: Job, call: Call) -> None:
    """Run Keras' predict_on_batch on the call's first batch repeatedly, then time requests.

    A request goes from samples in host memory to predictions in host memory.
    """
    model, meter = call.model, job.meter
    batch = _first(call)
    if isinstance(batch, np.ndarray):
        batch = HostSamples(batch)[:]
    requests = job.spec.requests
    assert requests is not None  # other scripts are measured as Keras runs them
    meter.begin()
    going = True
    while going:
        model.predict_on_batch(batch)
        going = meter.tick(1, rows(batch))
    sizes = (requests.compiled_batch_sizes if model.jit_compile else ()) or requests.batch_sizes
    # Repeats samples if there are too few for a batch.
    samples = np.resize(np.asarray(batch), (2 * sizes[-1], *batch.shape[1:]))
    client = Client(job, model.predict_on_batch, HostSamples(samples))
    met = client.measure(sizes, requests.bounds_ms, job.shared.bound_ms)
    if job.variant == BASELINE:
        job.shared.bound_ms = met


class HostSamples:
    """Samples as a tensor in host memory, of which slices share the memory.

    TensorFlow copies a NumPy array twice for each call, while no other thread can run Python.
    """

    def __init__(self, samples: NDArray[Any]) -> None:
        with tf.device("CPU:0"):
            self._samples = tf.constant(samples)

    def __len__(self) -> int:
        return rows(self._samples)

    def __getitem__(self, part: slice) -> Any:
        with tf.device("CPU:0"):
            return self._samples[part]


def model_only(job: Job) -> None:
    """Run the model on a batch in device memory, to measure the cost of copies."""
    began = job.meter.clock()
    batch = np.concatenate([np.asarray(_first(job.call))] * factor(job.variant, BATCH_PREFIX))
    forward = steps.compile_forward(job.call.model)
    job.meter.phase(BUILD, began)
    with tf.device(job.devices[0]):
        ready = tf.identity(tf.convert_to_tensor(batch))
        drive(job.meter, lambda: forward(ready), steps=1, samples=rows(batch))

    def serve(images: Any) -> None:
        with tf.device(job.devices[0]):
            forward(tf.convert_to_tensor(images)).numpy()

    if job.variant == MODEL_ONLY:
        Client(job, serve, batch).single_stream(len(batch))


def _first(call: Call) -> Any:
    """Return the call's first batch; a tensor stays on its device."""
    x, size = call.arguments["x"], call.arguments.get("batch_size") or 32
    if not isinstance(x, (np.ndarray, tf.Tensor)):
        raise ScriptError("Requests are made of an array: give predict one, or leave out [requests].")
    return x[:size]
