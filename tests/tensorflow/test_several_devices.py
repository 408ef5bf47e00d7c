"""The published workloads train on several devices together: dense layers, and convolutions."""

from __future__ import annotations

import math

import pytest

pytestmark = pytest.mark.tensorflow

TOGETHER = """
import json, sys, tempfile
from pathlib import Path
import numpy as np
import tensorflow as tf
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2)
from workloads import loading, devices, trial
from workloads.job import Job
from workloads.protocol import EventWriter, Spec, read_events
file, name, shape, classes, params = WHAT
folder = Path(tempfile.mkdtemp())
random = np.random.default_rng(0)
for part in ("train", "test"):
    np.save(folder / f"x_{part}.npy", random.integers(0, 256, (64, *shape), dtype=np.uint8))
    np.save(folder / f"y_{part}.npy", random.integers(0, classes, 64).astype(np.uint8))
spec = Spec(variants=("baseline", "tuned"), device="cpu", gpus=2, steps=2, windows=1,
            warmup_s=0.05, data_dir=str(folder), params=params)
loaded, names = loading.load(file, name), ["CPU:0", "CPU:1"]
train, test = trial.load_arrays(loaded, spec)
with EventWriter(folder / "events") as events:
    job = Job(loaded=loaded, spec=spec, events=events, devices=names,
              strategy=devices.strategy_for(names), train=train, test=test)
    trial.run_variants(job)
print(json.dumps(list(read_events((folder / "events").open()))))
"""
CASES = {
    "cifar100-mlp": ("mlp.py", (32, 32, 3), 100, {"batch_size": 8, "steps_per_execution": 2}),
    "cifar10-cnn": ("cifar10_cnn.py", (32, 32, 3), 10, {"batch_size": 8, "steps_per_execution": 2}),
}


@pytest.mark.parametrize("name", sorted(CASES))
def test_baseline_and_tuned_feed_every_device(script, name):
    file, shape, classes, params = CASES[name]
    events = script(TOGETHER.replace("WHAT", repr((file, name, shape, classes, params))))
    assert not [event for event in events if event["kind"] == "error"]
    windows = {event["variant"]: event for event in events if event["kind"] == "window"}
    assert set(windows) == {"baseline", "tuned"}
    for window in windows.values():
        assert window["samples"] == 2 * params["batch_size"] * window["steps"]
    losses = [
        event["value"] for event in events if event["kind"] == "metric" and event["name"] == "final_loss"
    ]
    assert len(losses) == 2
    # Labels that nothing can be learnt from: neither variant gets far below the logarithm of the classes.
    assert min(losses) > 0.5 * math.log(classes)


IN_STEP = """
import json
from pathlib import Path
from types import SimpleNamespace
import numpy as np
import tensorflow as tf
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2)
from workloads import building, devices, replicas, steps, tuning
from workloads.job import Job
from workloads.protocol import EventWriter, Spec
def factory(params):
    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Input((6,)), layers.Dense(5), layers.BatchNormalization(),
                                 layers.Dense(3, activation="softmax", dtype="float32")])
    model.compile(tf.keras.optimizers.SGD(0.1, momentum=0.9), "sparse_categorical_crossentropy")
    return model
names = ["CPU:0", "CPU:1"]
job = Job(loaded=SimpleNamespace(model=factory), spec=Spec(gpus=2), events=EventWriter(Path("none")), devices=names,
          strategy=devices.strategy_for(names), train=None, test=None)
params = {**tuning.DRIVER_DEFAULTS, "precision": PRECISION}
random = np.random.default_rng(0)
data = [(tf.constant(random.random((8, 6), np.float32)), tf.constant(random.integers(0, 3, 8))) for _ in names]
models = replicas.build(job, params)
mirrored = building.build(factory, params, strategy=job.strategy, seed=1)
mirrored.set_weights(models[0].get_weights())
for model, name in zip(models, names):
    with tf.device(name):
        building.make_variables(model, *data[0])
run = replicas.compile_train(job, models, steps.same, steps=3, jit=JIT)
for _ in range(2):
    run(data, tf.zeros([3, 2, 1], tf.int32))
apart = [float(tf.reduce_max(tf.abs(a - b)))
         for a, b in zip(models[0].trainable_variables, models[1].trainable_variables)]
building.make_mirrored_variables(mirrored, *data[0], job.strategy)
together = steps.compile_mirrored(mirrored, job.strategy)
batch = tuple(job.strategy.experimental_distribute_values_from_function(
    lambda context: data[context.replica_id_in_sync_group][part]) for part in range(2))
for _ in range(6):
    together(batch)
from_mirrored = [float(np.abs(a - b).max()) for a, b in zip(models[0].get_weights(), mirrored.get_weights())]
print(json.dumps([max(apart), from_mirrored]))
"""


@pytest.mark.parametrize(
    ("precision", "jit", "within"), [("fp32", False, 1e-5), ("fp32", True, 1e-5), ("fp16", True, 5e-3)]
)
def test_copies_stay_the_same_and_learn_what_keras_learns_under_a_strategy(script, precision, jit, within):
    apart, from_mirrored = script(IN_STEP.replace("PRECISION", repr(precision)).replace("JIT", repr(jit)))
    assert apart == 0
    assert max(from_mirrored) < within


INFERRED = """
import json
from pathlib import Path
from workloads import loading, trial
from workloads.job import Job
from workloads.protocol import EventWriter, NoGpuError, Spec
said = []
for more in ({"gpus": 2}, {"workers": 2}):
    spec = Spec(file="resnet50.py", workload="resnet50-infer", device="gpu", **more)
    job = Job(loaded=loading.load("resnet50.py", "resnet50-infer"), spec=spec, events=EventWriter(Path("none")),
              devices=["CPU:0"], strategy=None, train=None, test=None)
    try:
        trial.run_variants(job)
    except NoGpuError as error:
        said.append(str(error))
print(json.dumps(said))
"""


def test_inference_on_several_devices_is_refused(script):
    said = script(INFERRED)
    assert [text.split(" were")[0] for text in said] == ["2 GPUs", "2 workers"]
    assert all("--device gpu0" in text for text in said)


SHARED_OUT = """
import json
import tensorflow as tf
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 3)
from workloads import devices, draining
names = ["CPU:0", "CPU:1", "CPU:2"]
seen = {rows: float(devices.touch((tf.range(1, rows + 1), tf.constant(0.5)), names)) for rows in (2, 6, 7)}
graph = tf.function(lambda part: devices.touch(part, names)).get_concrete_function(
    tf.TensorSpec([None, 2])).graph
copied = {op.device[-5:]: op.inputs[0].op.type for op in graph.get_operations() if op.type == "Reshape"}
pull = draining.batches(tf.data.Dataset.range(7).batch(5), names)
print(json.dumps([seen, copied, pull(4)]))
"""

# Under a device scope of the caller's, as TensorFlow's own choice of a GPU would be.
ON_THE_HOST = """
import json
import tensorflow as tf
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2)
traced = []
function = tf.function
def kept(**options):
    def compiled(python):
        traced.append(function(python, **options))
        return traced[-1]
    return compiled
tf.function = kept
from workloads import draining
numbers = tf.data.Dataset.range(7)
pulls = [draining.samples(numbers), draining.batches(numbers.batch(5), ())]
samples = [pull(4) for pull in pulls]
places = set()
for one in traced:
    graph = one.get_concrete_function(tf.TensorSpec([], tf.int32)).graph.as_graph_def()
    for body in graph.library.function:
        places |= {(node.op, node.device[-5:]) for node in body.node_def if node.op.startswith("Add")}
print(json.dumps([samples, sorted(places)]))
"""


def test_a_drained_batch_is_shared_out_among_the_devices(script):
    seen, copied, samples = script(SHARED_OUT)
    # The first number of each share, and on every device what has no rows.
    assert seen == {"2": 1 + 2 + 2 + 1.5, "6": 1 + 3 + 5 + 1.5, "7": 1 + 4 + 7 + 1.5}
    assert copied == dict.fromkeys(("CPU:0", "CPU:1", "CPU:2"), "StridedSlice")
    assert samples == 14


def test_what_is_drained_to_host_memory_asks_no_other_device(script):
    samples, places = script(ON_THE_HOST)
    assert samples == [4 * 16, 5 + 2 + 5 + 2]
    assert {name for name, _ in places} == {"AddV2"}
    assert {place for _, place in places} == {"CPU:0"}
