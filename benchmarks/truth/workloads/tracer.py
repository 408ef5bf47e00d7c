"""Trace a workload file's training by TensorFlow's profiler, as its guide says: a marked step a batch.

`python3 tracer.py SPEC.json FOLDER`, inside a trial's container. FOLDER gets the trace.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import tensorflow as tf

from workloads import building, devices, loading, pipeline, tuning
from workloads.driver import read_spec
from workloads.protocol import BASELINE, Spec

WARM_UP_S = 2.0
LEAST_STEPS, MOST_STEPS, TRACE_S = 5, 40, 1.5


def main(arguments: list[str]) -> int:
    """Trace one workload and return the exit code."""
    spec, folder = read_spec(Path(arguments[0])), Path(arguments[1])
    names = devices.prepare(spec.device, spec.gpus)
    batches, step = training(spec, names[0])
    began = time.monotonic()
    while time.monotonic() - began < WARM_UP_S:
        step(next(batches))
    devices.synchronise()
    tf.profiler.experimental.start(str(folder))
    began, number = time.monotonic(), 0
    while number < MOST_STEPS and (number < LEAST_STEPS or time.monotonic() - began < TRACE_S):
        with tf.profiler.experimental.Trace("train", step_num=number, _r=1):
            step(next(batches))
        number += 1
    devices.synchronise()
    tf.profiler.experimental.stop()
    sys.stdout.write(json.dumps({"steps": number, "seconds": time.monotonic() - began}) + "\n")
    return 0


def training(spec: Spec, device: str) -> tuple:
    """Return the batches of the baseline pipeline, without end, and the compiled training step."""
    loaded = loading.load(spec.file, spec.workload)
    assert loaded.dataset is not None, "only workloads with a pipeline of their own are traced"
    params = tuning.variant_params(loaded.workload, spec, BASELINE)
    model = building.build(loaded.model, params, strategy=None, seed=spec.seed)
    batches = iter(pipeline.assemble(loaded.dataset(params, spec.data_dir)).repeat())
    with tf.device(device):
        building.make_variables(model, *next(batches))
        step = tf.function(model.train_step, jit_compile=bool(model.jit_compile), autograph=False)
    return batches, step


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)
