"""Requests of a model that generates tokens: the time to the first token, and that of each further one.

As in MLPerf Inference, the time per output token of a request is what it takes beyond its first token, over the number
of further ones. A compiled loop hands over all tokens at once, so the time to the first token is that of a request for
one token.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import tensorflow as tf

from workloads.driver import inference
from workloads.driver.call import Call
from workloads.driver.job import Job
from workloads.driver.timing import drive
from workloads.protocol import (
    FIRST_TOKEN,
    FLOPS,
    PER_TOKEN,
    SEQUENCE_BYTES,
    STEP_BYTES,
)

# Time budget of a series, in windows of the profile.
SERIES_WINDOWS = 8.0


class Compiled:
    """The compiled functions of a model, by batch size and number of tokens: each is traced with known shapes."""

    def __init__(self, call: Call) -> None:
        self._model = call.model
        self._functions: dict[tuple[int, int], Any] = {}

    def run(self, prompts: Any, new_tokens: int, run: Callable[[Any], Any]) -> Any:
        """Call `run` with prompts while the model makes that many tokens."""
        model, key = self._model, (len(prompts), new_tokens)
        before = model.new_tokens
        model.new_tokens, model.predict_function = new_tokens, self._functions.get(key)
        try:
            return run(prompts)
        finally:
            self._functions[key] = model.predict_function
            model.new_tokens = before


def as_written(job: Job, call: Call) -> None:
    """Run Keras' predict_on_batch on the call's first batch repeatedly, then time requests by batch size.

    A sample is a new token. Batch sizes are the call's, and larger ones of the script's metadata while the time of
    the profile lasts.
    """
    model, meter, tokens = call.model, job.meter, call.new_tokens
    batch = inference.first_batch(call)
    compiled = Compiled(call)
    for name, value in zip((FLOPS, STEP_BYTES, SEQUENCE_BYTES), getattr(model, "needs", ()), strict=False):
        job.metric(name, value)
    meter.begin()
    going = True
    while going:
        compiled.run(batch, tokens, model.predict_on_batch)
        going = meter.tick(1, call.samples(batch))
    call.compiled = compiled
    if tokens < 2:
        return
    requests = job.spec.requests
    assert requests is not None  # other scripts are measured as Keras runs them
    began, measured = time.monotonic(), len(batch)
    for size in (measured, *(each for each in requests.batch_sizes if each > measured)):
        limit_s = job.spec.variant_s
        if size > len(batch) and (job.spec.steps or (limit_s and time.monotonic() - began > limit_s)):
            if not job.spec.steps:
                job.events.warning(
                    f"{job.variant}: no time for batches from {size}. Use --profile full, or --param BATCH_SIZE={size}."
                )
            break
        prompts = np.resize(batch, (size, *batch.shape[1:]))
        try:
            _time(job, call, prompts)
        except tf.errors.ResourceExhaustedError:
            job.events.warning(
                f"{job.variant}: a batch of {size} does not fit into the memory; one of {measured} does."
            )
            break
        measured = size


def _time(job: Job, call: Call, prompts: Any) -> None:
    """Write the times to the first token and of further ones of requests with these prompts."""
    predict, compiled, tokens = call.model.predict_on_batch, call.compiled, call.new_tokens

    def serve(count: int) -> Callable[[Any], None]:
        return lambda batch: compiled.run(batch, count, predict)

    windows = SERIES_WINDOWS
    whole = inference.Client(job, serve(tokens), prompts).single_stream(len(prompts), windows, scenario="")
    first = inference.Client(job, serve(1), prompts).single_stream(
        len(prompts), windows / 4, scenario=FIRST_TOKEN
    )
    beyond = median(first)
    began = time.monotonic_ns()
    each = [max(1, round((latency - beyond) / (tokens - 1))) for latency in whole]
    inference.Client(job, serve(tokens), prompts).write(
        PER_TOKEN, len(prompts), 0.0, began, each, planned=len(each)
    )


def model_only(job: Job) -> None:
    """Run the compiled function on prompts in device memory, without Keras around it."""
    call = job.call
    compiled: Compiled = call.compiled or Compiled(call)
    model, prompts = call.model, inference.first_batch(call)
    with tf.device(job.devices[0]):
        ready = tf.identity(tf.convert_to_tensor(prompts))

    def run(batch: Any) -> Any:
        model.make_predict_function()
        return model.predict_function([(ready,)])

    drive(
        job.meter,
        lambda: compiled.run(prompts, call.new_tokens, run),
        steps=1,
        samples=call.samples(prompts),
    )
