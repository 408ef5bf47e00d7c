"""Python code in and around the baseline's steps is measured, and removed by its ablation."""

import pytest

from benchmarks.truth.running import WORKLOADS
from workloads.protocol import (
    BASELINE,
    CALLBACKS,
    CUSTOM_LOOP,
    PYTHON_IN_STEP,
    RETRACES,
    RETRACING,
    RUN_EAGERLY,
    WITHOUT_FRAMEWORK,
)

pytestmark = pytest.mark.tensorflow


def run(drive, variants=(BASELINE,), **params):
    return drive(file=str(WORKLOADS / "framework.py"), variants=variants, params=params, steps=10)


def names(done):
    return {event["name"] for event in done.of("metric", variant=BASELINE)}


def test_plain_fit_has_no_framework_metrics_and_needs_no_ablation(drive):
    done = run(drive, [BASELINE, WITHOUT_FRAMEWORK], sample_us=100)
    assert done.metric(BASELINE, RUN_EAGERLY) == 0
    assert not names(done) & {CALLBACKS, PYTHON_IN_STEP}
    assert [event["variant"] for event in done.of("needless")] == [WITHOUT_FRAMEWORK]


def test_callbacks_are_timed_and_removed_by_the_ablation(drive):
    done = run(drive, [BASELINE, WITHOUT_FRAMEWORK], callback_ms=30, sample_us=100)
    assert 0.03 <= done.metric(BASELINE, CALLBACKS) < 0.15  # a busy machine sleeps longer
    step_s = {event["variant"]: (event["end_ns"] - event["start_ns"]) / event["steps"] / 1e9
              for event in done.of("window")}  # fmt: skip
    assert step_s[BASELINE] > step_s[WITHOUT_FRAMEWORK] + 0.015
    (event,) = done.of("variant", variant=WITHOUT_FRAMEWORK)
    assert event["params"]["callbacks"] is False
    assert "callbacks" in {change["what"] for change in event["changes"]}


def test_python_functions_in_the_step_are_timed(drive):
    done = run(drive, python_ms=4, sample_us=100)
    assert done.metric(BASELINE, PYTHON_IN_STEP) == pytest.approx(0.004, rel=0.5)


def test_eager_steps_are_reported_and_compiled_by_the_ablation(drive):
    done = run(drive, [BASELINE, WITHOUT_FRAMEWORK], eager=1, sample_us=100)
    assert done.metric(BASELINE, RUN_EAGERLY) == 1
    assert PYTHON_IN_STEP not in names(done), "an eager step is all Python"
    assert done.of("window", variant=WITHOUT_FRAMEWORK)


def test_retraces_are_counted_and_timed(drive):
    file, params = str(WORKLOADS / "framework.py"), {"lengths": 1}
    done = drive(file=file, variants=[CUSTOM_LOOP], params=params, steps=3, windows=1)
    counted = {event["name"]: event["value"] for event in done.of("metric", variant=CUSTOM_LOOP)}
    assert counted.get(RETRACES, 0) > 0
    assert counted[RETRACING] > 0


HOST_FED_STEPS = """
import json
from types import SimpleNamespace
import tensorflow as tf
from workloads.driver import step_variants
batches = []
class ThreeSteps:
    samples = 0
    def clock(self): return 0
    def phase(self, name, start): return 0
    def begin(self): pass
    def tick(self, steps, samples, wait_ns): return len(batches) < 3
def step(batch):
    batches.append(batch[0])
    return tf.zeros([])
batch = (tf.zeros([4, 3]), tf.zeros([4]))
shared = SimpleNamespace(batch=batch, model=None, step=step)
step_variants.one_batch(SimpleNamespace(devices=("CPU:0",), shared=shared, variant="host-fed", meter=ThreeSteps()))
handles = {id(each) for each in batches}
print(json.dumps({"handles": len(handles), "batch": id(batch[0]) in handles}))
"""


def test_host_fed_passes_a_new_tensor_in_each_step(script):
    """TensorFlow caches a tensor's copy on the device, so reusing the tensor would skip the copy."""
    assert script(HOST_FED_STEPS) == {"handles": 3, "batch": False}
