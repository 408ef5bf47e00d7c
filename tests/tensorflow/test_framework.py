"""Python code in and around the baseline's steps is measured, and removed by its ablation."""

import pytest

from tests.tensorflow.texts import HEAD
from workloads.protocol import (
    BETWEEN_EPOCHS,
    CALLBACKS,
    COMPUTE_BITS,
    EPOCH_CALLBACK_PREFIX,
    HOST_MEMORY,
    PYTHON_IN_STEP,
    RETRACING,
    VARIABLE_PREFIX,
)
from workloads.variants import BASELINE, CUSTOM_LOOP, MODEL_ONLY, WITHOUT_FRAMEWORK

pytestmark = pytest.mark.tensorflow


# Python in the step and per batch, eager steps, sequences of several lengths.
SCRIPT = (
    HEAD
    + """
import time
PYTHON_MS = 0
CALLBACK_MS = 0
EAGER = False
XLA = False
SIZES = False
class Own(keras.Sequential):
    def train_step(self, data):
        if PYTHON_MS:
            slept = tf.py_function(lambda: time.sleep(PYTHON_MS / 1e3) or 0.0, [], tf.float32)
            with tf.control_dependencies([slept]):
                return super().train_step(data)
        return super().train_step(data)
class Slow(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(CALLBACK_MS / 1e3)
model = Own([keras.layers.Dense(2)])
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True), run_eagerly=EAGER,
              jit_compile=XLA)
data = tf.data.Dataset.from_tensor_slices((x, y)).map(lambda a, b: (a, b))
if SIZES:
    data = tf.data.Dataset.range(1, 8).map(lambda size: (tf.constant(x)[:size], tf.constant(y)[:size]))
else:
    data = data.batch(8, drop_remainder=not XLA)
model.fit(data, callbacks=[Slow()] if CALLBACK_MS else None)
"""
)


def run(drive, variants=(BASELINE,), **constants):
    text = SCRIPT
    for name, value in constants.items():
        text = text.replace(f"\n{name} = 0\n", f"\n{name} = {value}\n").replace(
            f"{name} = False", f"{name} = {value}"
        )
    return drive(text, variants=list(variants), steps=10)


def names(done):
    return {event["name"] for event in done.of("metric", variant=BASELINE)}


def test_plain_fit_has_no_framework_metrics_and_needs_no_ablation(drive):
    done = run(drive, [BASELINE, WITHOUT_FRAMEWORK])
    assert done.of("variant", variant=BASELINE)[0]["params"]["run_eagerly"] is False
    assert not names(done) & {CALLBACKS, PYTHON_IN_STEP}
    assert [event["variant"] for event in done.of("needless")] == [WITHOUT_FRAMEWORK]
    assert done.metric(BASELINE, COMPUTE_BITS) == 32
    assert len([name for name in names(done) if name.startswith(VARIABLE_PREFIX)]) == 1
    assert 100e6 < done.metric(BASELINE, HOST_MEMORY) < 100e9


def test_python_in_and_around_a_step_is_timed_and_callbacks_are_removed_by_the_ablation(drive):
    done = run(drive, [BASELINE, WITHOUT_FRAMEWORK], CALLBACK_MS=30, PYTHON_MS=4)
    assert 0.004 <= done.metric(BASELINE, PYTHON_IN_STEP) < 0.03  # a busy machine sleeps longer
    assert 0.03 <= done.metric(BASELINE, CALLBACKS) < 0.15  # a busy machine sleeps longer
    step_s = {event["variant"]: (event["end_ns"] - event["start_ns"]) / event["steps"] / 1e9
              for event in done.of("window")}  # fmt: skip
    assert step_s[BASELINE] > step_s[WITHOUT_FRAMEWORK] + 0.015


def test_callbacks_at_ends_of_epochs_are_timed_without_what_happens_once(drive):
    """As a callback that predicts: the first time Keras traces and compiles."""
    own = (
        "class Scores(keras.callbacks.Callback):\n    def on_epoch_end(self, epoch, logs=None):\n"
        "        time.sleep(0.05 if hasattr(self, 'seen') else 1.5)\n        self.seen = True\n"
        "model.fit(data, epochs=9, callbacks=[Scores()])\n"
    )
    text = SCRIPT[: SCRIPT.index("model.fit(")] + own
    done = drive(text, variants=[BASELINE, WITHOUT_FRAMEWORK], steps=10)
    steps = done.of("variant", variant=BASELINE)[0]["params"]["samples_per_epoch"] // 8
    assert 0.05 <= done.metric(BASELINE, f"{EPOCH_CALLBACK_PREFIX}Scores") * steps < 0.3
    assert done.metric(WITHOUT_FRAMEWORK, BETWEEN_EPOCHS) * steps < 0.04


def test_eager_steps_and_retracing_are_reported_and_compiled_by_the_ablation(drive):
    done = run(drive, [BASELINE, WITHOUT_FRAMEWORK], EAGER=True)
    assert done.of("variant", variant=BASELINE)[0]["params"]["run_eagerly"] is True
    assert PYTHON_IN_STEP not in names(done), "an eager step is all Python"
    assert done.of("window", variant=WITHOUT_FRAMEWORK)


def test_functions_that_run_eagerly_are_eager_steps_and_the_parts_are_compiled(drive):
    eager = SCRIPT.replace("EAGER = False", "EAGER = False\ntf.config.run_functions_eagerly(True)")
    head = "def train_step(self, data):"
    noting = eager.replace(head, f"{head}\n        print('traced', tf.executing_eagerly())")
    done = drive(noting, variants=[BASELINE, MODEL_ONLY], steps=10)
    assert done.of("variant", variant=BASELINE)[0]["params"]["run_eagerly"] is True
    assert "traced True" in done.log and "traced False" in done.log


def test_compiling_for_sizes_that_keep_coming_is_retracing_and_for_a_short_last_batch_is_not(drive):
    several = run(drive, [BASELINE, CUSTOM_LOOP], XLA=True, SIZES=True)
    assert several.metric(CUSTOM_LOOP, RETRACING) > 0
    assert RETRACING not in names(run(drive, [BASELINE, CUSTOM_LOOP], XLA=True))


STOPWATCH = """
import json, time
from workloads.driver.python_calls import Stopwatch
def timed(callback):
    stopwatch = Stopwatch()
    stopwatch.callbacks([callback])
    return stopwatch.wrapped
def watched(durations):
    stopwatch, waits = Stopwatch(), iter(durations)
    call = stopwatch.timed(lambda: time.sleep(next(waits)))
    for _ in durations:
        call()
    return stopwatch.rare_ns / stopwatch.total_ns
kinds = tf.keras.callbacks
made = [kinds.LambdaCallback(on_train_batch_end=print), kinds.LambdaCallback(), kinds.TerminateOnNaN(),
        kinds.EarlyStopping()]
print(json.dumps([watched([0.002] * 9 + [0.2]), watched([0.02] * 5), list(map(timed, made))]))
"""


def test_calls_that_save_now_and_then_are_told_from_equal_ones(execute):
    saving, equal, timed = execute(STOPWATCH)
    assert saving > 0.7 and equal < 0.3
    assert timed == [True, False, True, False], "callbacks made of functions are timed"


PROFILE = """
import json, threading, time
from concurrent.futures import ThreadPoolExecutor
from workloads.driver.python_calls import profile
def idle():
    while True:
        time.sleep(0.01)
threading.Thread(target=idle, daemon=True).start()
executor = ThreadPoolExecutor(1)
def waited():
    return executor.submit(time.sleep, 0.02).result()
def computed():
    until = time.perf_counter() + 0.04
    while time.perf_counter() < until:
        pass
def batches():
    for _ in range(5):
        waited()
        computed()
        yield 1
def alone():
    return executor.submit(time.sleep, 0.02).result() or 1
package = {"__name__": "package"}
exec(compile(
    "import time\\ndef within():\\n    time.sleep(0.02)\\n    return 1\\ndef resized(): return within()",
    "/lib/site-packages/package.py", "exec",
), package)
def loaded():
    return package["resized"]()
made = [batches(), iter(alone, None), iter([1] * 9), iter([]), iter(loaded, None)]
print(json.dumps([profile(each, 2, 0.2) for each in made]))
"""


def test_functions_of_a_loader_have_the_times_of_its_own_thread(execute):
    split, waiting, ready, ended, packaged = execute(PROFILE)
    (first, computed), (second, waited) = split.items()
    assert first.startswith("computed, ") and 0.019 < computed < 0.04
    assert second.startswith("waited, ") and 0.009 < waited < 0.03
    (name,) = waiting
    assert name.startswith("result, _base.py:"), (
        "waiting inside the standard library has the name of what was called"
    )
    assert list(ready) == ["iteration"] and ended == {}
    assert [*packaged] == ["resized, package.py:5"], "what the script calls is named, not what that calls"


HOST_FED_STEPS = """
import json
from types import SimpleNamespace
import tensorflow as tf
from workloads.driver import breakdown
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
call = SimpleNamespace(batch=batch, model=None, step=step, restore_state=lambda: None)
breakdown.one_batch(SimpleNamespace(devices=("CPU:0",), call=call,
                                        variant="host-fed", meter=ThreeSteps()))
handles = {id(each) for each in batches}
print(json.dumps({"handles": len(handles), "batch": id(batch[0]) in handles}))
"""


def test_host_fed_passes_a_new_tensor_in_each_step(execute):
    """TensorFlow caches a tensor's copy on the device, so reusing the tensor would skip the copy."""
    assert execute(HOST_FED_STEPS) == {"handles": 3, "batch": False}


LAYERS = """
import json, keras
from workloads.driver.keras_model import loops_of_kernels
made = [keras.layers.LSTM(4), keras.layers.GRU(4, recurrent_dropout=0.2, unroll=True),
        keras.layers.Bidirectional(keras.layers.LSTM(4, activation="relu")), keras.layers.GRU(4, reset_after=False)]
print(json.dumps([[why for _, why in loops_of_kernels(keras.Sequential([keras.Input((3, 2)), layer]))]
                  for layer in made]))
"""


def test_recurrent_layers_without_cudnns_kernel_are_named(execute):
    lstm, gru, both, old = execute(LAYERS)
    assert lstm == [] and gru == ["recurrent_dropout=0.2, unroll=True"] and old == ["reset_after=False"]
    assert both == ["activation=relu"] * 2


READ_AHEAD = """
import json, time
from workloads.driver.pipelines import read_alone
made, count, drawn = [], tf.Variable(0), tf.random.Generator.from_seed(1)
def given():
    while True:
        made.append(1)
        yield 1
def counted(each):
    count.assign_add(1)
    return each, drawn.uniform([])
one = tf.data.Dataset.from_generator(given, output_signature=tf.TensorSpec([], tf.int32)).batch(2).prefetch(9)
seeds = tf.data.Dataset.range(99).interleave(lambda each: tf.data.Dataset.range(3).map(counted)).prefetch(9)
mapped = []
def kept(each):
    mapped.append(1)
    return each
fused = tf.data.Dataset.range(99).map(lambda each: tf.numpy_function(kept, [each], tf.int64)).batch(2)
state = drawn.state.numpy().tolist()
for each in (one, seeds, *[fused] * 9):
    with read_alone(each) as alone:
        first = next(iter(alone))
        time.sleep(0.1)
print(json.dumps([len(made), len(mapped), int(count), drawn.state.numpy().tolist() == state]))
"""


def test_a_first_batch_takes_nothing_else_and_leaves_variables_as_they_were(execute):
    assert execute(READ_AHEAD) == [2, 9 * 2, 0, True]


def test_functions_that_are_traced_in_each_call_are_named(drive):
    text = HEAD + (
        "class Net(keras.Sequential):\n    number = 0\n"
        "    def train_step(self, data):\n        self.number += 1\n"
        "        return {'loss': self.traced(data, self.number)}\n"
        "    @tf.function\n    def traced(self, data, number):\n        return tf.reduce_mean(data[0]) * number\n"
        "net = Net([keras.layers.Dense(2)])\nnet.compile('sgd', run_eagerly=True)\nnet.fit(x, y, 8, epochs=9)\n"
    )
    (warning,) = (each["message"] for each in drive(text).of("warning") if "traces" in each["message"])
    assert "traces Net.traced in most calls" in warning
