import math

import pytest

from tests.tensorflow.conftest import Outcome

pytestmark = pytest.mark.tensorflow

TOGETHER = """
import json, tempfile
from pathlib import Path
import tensorflow as tf
from workloads.driver import workload_file, tensorflow_trial
from workloads.driver.job import Job
from workloads.protocol import EventWriter, Spec, read_events
file, name, folder, variants, steps, params = WHAT
spec = Spec(variants=variants, device="cpu", gpus=2, steps=steps, windows=2, warmup_s=0.05, data_dir=folder,
            params=params)
loaded, names = workload_file.load(file, name), ["CPU:0", "CPU:1"]
train, test = tensorflow_trial.load_arrays(loaded, spec)
path = Path(tempfile.mkdtemp()) / "events"
with path.open("w") as file:
    job = Job(loaded=loaded, spec=spec, events=EventWriter(file), devices=names,
              strategy=tf.distribute.MirroredStrategy(names), train=train, test=test)
    tensorflow_trial.run_variants(job)
print(json.dumps(list(read_events(path.open()))))
"""

OWN = """
import tensorflow as tf
from workloads.protocol import Data, Workload
workload = Workload(
    name="two", title="T", data=Data(name="own", shape=(8, 8, 3), classes=4, train=512, test=64),
    batch_size=16, epochs=1, tuned={"feed": "resident", "steps_per_execution": 4},
    optimizations={"xla": {"feed": "resident", "jit_compile": True}, "spe": {"steps_per_execution": 4}},
)
def model(params):
    layers = tf.keras.layers
    net = tf.keras.Sequential([
        layers.Input((8, 8, 3)), layers.Conv2D(8, 3, use_bias=False), layers.BatchNormalization(),
        layers.ReLU(), layers.Flatten(), layers.Dense(4, activation="softmax")])
    net.compile(tf.keras.optimizers.Adam(0.003), "sparse_categorical_crossentropy", metrics=["accuracy"])
    return net
"""


def together(script, *what):
    outcome = Outcome(script(TOGETHER.replace("WHAT", repr(what)), devices=2), "")
    assert not outcome.of("error")
    return outcome


def test_baseline_and_tuned_use_all_devices(script, data_dir):
    params, variants = {"batch_size": 8, "steps_per_execution": 2}, ("baseline", "tuned")
    done = together(script, "cifar10_cnn.py", "cifar10-cnn", data_dir((32, 32, 3), 10), variants, 2, params)
    assert done.per_step() == dict.fromkeys(variants, 2 * 8)
    assert all(math.isfinite(done.metric(variant, "final_loss")) for variant in variants)


def test_all_variants_train_on_two_devices(script, data_dir, tmp_path):
    path = tmp_path / "two.py"
    path.write_text(OWN)
    variants = ("baseline", "tuned", "opt:xla", "model-only", "input-only", "opt:spe")
    done = together(script, str(path), "two", data_dir((8, 8, 3), 4, 512), variants, 40, {})
    assert [event["variant"] for event in done.of("left-out")] == ["opt:spe"]
    assert done.per_step() == dict.fromkeys(variants[:-1], 2 * 16)
    assert {event["variant"] for event in done.of("metric", name="accuracy")} == {"baseline", "tuned"}
    assert min(done.metric(variant, "accuracy") for variant in ("baseline", "tuned")) > 0.7
    assert done.metric("opt:xla", "final_loss") < 1.0
    # Only the baseline lists the global batch as a change; the other variants use the same one.
    batches = {
        event["variant"]: change["after"]
        for event in done.of("variant") for change in event["changes"] if change["what"] == "global batch"
    }  # fmt: skip
    assert batches == {"baseline": "32"}


IN_STEP = """
import io, json
from types import SimpleNamespace
import numpy as np
import tensorflow as tf
from workloads.driver import building, replicas, steps, tuning
from workloads.driver.job import Job
from workloads.protocol import EventWriter, Spec
def factory(params):
    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Input((6,)), layers.Dense(5), layers.BatchNormalization(),
                                 layers.Dense(3, activation="softmax", dtype="float32")])
    model.compile(tf.keras.optimizers.SGD(0.1, momentum=0.9), "sparse_categorical_crossentropy")
    return model
names = ["CPU:0", "CPU:1"]
params = {**tuning.DRIVER_DEFAULTS, "precision": PRECISION}
job = Job(loaded=SimpleNamespace(model=factory), spec=Spec(gpus=2), events=EventWriter(io.StringIO()), devices=names,
          strategy=tf.distribute.MirroredStrategy(names), params=params)
random = np.random.default_rng(0)
data = [(tf.constant(random.random((8, 6), np.float32)), tf.constant(random.integers(0, 3, 8))) for _ in names]
models = replicas.build(job)
mirrored = building.build(factory, params, strategy=job.strategy, seed=1)
mirrored.set_weights(models[0].get_weights())
for model, name in zip(models, names):
    with tf.device(name):
        building.make_variables(model, data[0])
run = replicas.compile_train(job, models, steps.same, steps=3, jit=JIT)
for _ in range(2):
    run(data, tf.zeros([3, 2, 1], tf.int32))
apart = [float(tf.reduce_max(tf.abs(a - b)))
         for a, b in zip(models[0].trainable_variables, models[1].trainable_variables)]
building.make_variables(mirrored, data[0], job.strategy)
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
def test_replicas_stay_equal_and_match_mirrored_strategy(script, precision, jit, within):
    code = IN_STEP.replace("PRECISION", repr(precision)).replace("JIT", repr(jit))
    apart, from_mirrored = script(code, devices=2)
    assert apart == 0
    assert max(from_mirrored) < within


INFERRED = """
import io, json
from workloads.driver import workload_file, tensorflow_trial
from workloads.driver.job import Job
from workloads.protocol import EventWriter, NoGpuError, Spec
messages = []
for name, more in (("resnet50-infer", {"gpus": 2}), ("resnet50-serve", {"workers": 2})):
    spec = Spec(file="resnet50.py", workload=name, device="gpu", **more)
    job = Job(loaded=workload_file.load("resnet50.py", name), spec=spec, events=EventWriter(io.StringIO()),
              devices=["CPU:0"])
    try:
        tensorflow_trial.run_variants(job)
    except NoGpuError as error:
        messages.append(str(error))
print(json.dumps(messages))
"""


def test_inference_on_several_devices_is_rejected(script):
    messages = script(INFERRED)
    assert [text.split(" were")[0] for text in messages] == ["2 GPUs", "2 workers"]
    assert all("--device gpu0" in text for text in messages)


SPLIT_BATCHES = """
import json
import tensorflow as tf
from workloads.driver import devices, draining
names = ["CPU:0", "CPU:1", "CPU:2"]
seen = {rows: float(devices.touch((tf.range(1, rows + 1), tf.constant(0.5)), names)) for rows in (2, 6, 7)}
graph = tf.function(lambda part: devices.touch(part, names)).get_concrete_function(
    tf.TensorSpec([None, 2])).graph
copied = {op.device[-5:]: op.inputs[0].op.type for op in graph.get_operations() if op.type == "Reshape"}
pull = draining.batches(tf.data.Dataset.range(7).batch(5), names)
print(json.dumps([seen, copied, pull(4)]))
"""

# Records the functions that draining compiles, to check where their operations are placed.
ON_THE_HOST = """
import json
import tensorflow as tf
traced = []
function = tf.function
def recording_function(**options):
    def compiled(python):
        traced.append(function(python, **options))
        return traced[-1]
    return compiled
tf.function = recording_function
from workloads.driver import draining
numbers = tf.data.Dataset.range(7)
pulls = [draining.samples(numbers), draining.batches(numbers.batch(5), ())]
samples = [pull(4) for pull in pulls]
placements = set()
for each in traced:
    graph = each.get_concrete_function(tf.TensorSpec([], tf.int32)).graph.as_graph_def()
    for body in graph.library.function:
        placements |= {(node.op, node.device[-5:]) for node in body.node_def if node.op.startswith("Add")}
print(json.dumps([samples, sorted(placements)]))
"""


def test_a_drained_batch_is_split_among_the_devices(script):
    seen, copied, samples = script(SPLIT_BATCHES, devices=3)
    # The first number of each share, plus the scalar 0.5 once per device.
    assert seen == {"2": 1 + 2 + 2 + 1.5, "6": 1 + 3 + 5 + 1.5, "7": 1 + 4 + 7 + 1.5}
    assert copied == dict.fromkeys(("CPU:0", "CPU:1", "CPU:2"), "StridedSlice")
    assert samples == 14


def test_draining_to_host_memory_uses_no_other_device(script):
    samples, placements = script(ON_THE_HOST, devices=2)
    assert samples == [4 * 16, 5 + 2 + 5 + 2]
    assert {name for name, _ in placements} == {"AddV2"}
    assert {device for _, device in placements} == {"CPU:0"}
