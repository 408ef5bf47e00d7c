import pytest

from tests.tensorflow.conftest import Outcome

pytestmark = pytest.mark.tensorflow

TOGETHER = """
import json, tempfile
from pathlib import Path
import tensorflow as tf
from workloads.driver.results import ResultsFile
from workloads.driver.tensorflow_task import do
from workloads.driver.trial import Trial
from workloads.protocol import EventWriter, Script, Spec, read_events
texts, variants, steps = WHAT
scripts = {variant: Script(path="/tmp/empty/train.py", text=text) for variant, text in texts.items()}
Path("/tmp/empty").mkdir(exist_ok=True)
spec = Spec(scripts=scripts, variants=variants, device="cpu", gpus=2, steps=steps, windows=2, warmup_s=0.05)
names = ["CPU:0", "CPU:1"]
path = Path(tempfile.mkdtemp()) / "events"
with path.open("a") as file:
    events = EventWriter(file)
    events.planned = variants
    Trial(spec, events, ResultsFile(path), lambda *given: do(*given, names), ()).run()
print()
print(json.dumps(list(read_events(path.open()))))
"""
FIT = """
import keras
import numpy as np
import tensorflow as tf
layers = keras.layers
random = np.random.default_rng(7)
patterns, y = random.normal(size=(4, 8, 8, 3)), random.integers(0, 4, 512)
x = (patterns[y] + 0.3 * random.normal(size=(512, 8, 8, 3))).astype("float32")
model = keras.Sequential([
    layers.Input((8, 8, 3)), layers.Conv2D(8, 3, use_bias=False), layers.BatchNormalization(),
    layers.ReLU(), layers.Flatten(), layers.Dense(4, activation="softmax")])
model.compile(keras.optimizers.Adam(0.003), "sparse_categorical_crossentropy", metrics=["accuracy"], jit_compile=False)
"""
PIPELINE = "tf.data.Dataset.from_tensor_slices((x, y)).batch(16)"


def together(execute, text, others=None, variants=("baseline",), steps=4):
    what = (
        {"baseline": FIT + text, **{name: FIT + each for name, each in (others or {}).items()}},
        variants,
        steps,
    )
    return Outcome(execute(TOGETHER.replace("WHAT", repr(what)), devices=2), "")


ENDLESS = (
    "def endless():\n    while True:\n        yield x[:16], y[:16]\nmodel.fit(endless(), steps_per_epoch=4)"
)


@pytest.mark.parametrize("call", ["model.evaluate(x, y)", "model.predict(x)", ENDLESS])
def test_inference_and_python_loaders_on_several_devices_are_rejected(execute, call):
    message = together(execute, call).of("error")[0]["message"]
    assert ("Use tf.data" if call == ENDLESS else "2 GPUs were requested") in message
    assert "--device gpu0" in message


OWN_STRATEGY = """
with tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"]).scope():
    model = keras.models.clone_model(model)
    model.compile("sgd", "sparse_categorical_crossentropy")
model.fit(x, y, batch_size=64)
"""


@pytest.mark.parametrize(
    ("call", "variants"),
    [
        ("model.fit(x, y, batch_size=16)", ("baseline", "model-only", "input-only", "without:input")),
        (f"model.fit({PIPELINE})", ("baseline", "input-only")),
    ],
)
def test_each_device_takes_a_batch_of_the_scripts_size(execute, call, variants):
    done = together(execute, call, variants=variants)
    assert done.of("left-out") == []
    assert done.per_step() == dict.fromkeys(variants, 2 * 16)
    assert done.of("variant", variant="baseline")[0]["params"]["batch_size"] == 32


def test_training_on_two_devices_learns(execute):
    tuned = f"model.fit({PIPELINE})\nmodel.evaluate(x, y)"
    plain = "model.fit(x, y, batch_size=16)\nmodel.evaluate(x, y)"
    done = together(execute, plain, {"tuned": tuned}, ("baseline", "tuned"), steps=20)
    assert done.of("error") == []
    for variant in ("baseline", "tuned"):
        assert done.metric(variant, "accuracy") > 0.7
    # A script with a strategy of its own keeps its batches.
    assert together(execute, OWN_STRATEGY).per_step() == {"baseline": 64}


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


def test_a_drained_batch_is_split_among_the_devices(execute):
    seen, copied, samples = execute(SPLIT_BATCHES, devices=3)
    # The first number of each share, plus the scalar 0.5 once per device.
    assert seen == {"2": 1 + 2 + 2 + 1.5, "6": 1 + 3 + 5 + 1.5, "7": 1 + 4 + 7 + 1.5}
    assert copied == dict.fromkeys(("CPU:0", "CPU:1", "CPU:2"), "StridedSlice")
    assert samples == 14


def test_draining_to_host_memory_uses_no_other_device(execute):
    samples, placements = execute(ON_THE_HOST, devices=2)
    assert samples == [4 * 16, 5 + 2 + 5 + 2]
    assert {name for name, _ in placements} == {"AddV2"}
    assert {device for _, device in placements} == {"CPU:0"}


SYNC = """
import json, time
import tensorflow as tf
from workloads.driver import devices
tf.config.experimental.set_synchronous_execution(False)
a = tf.random.normal((1500, 1500))
product = tf.function(lambda x: tf.linalg.matmul(tf.linalg.matmul(tf.linalg.matmul(x, x), x), x))
product(a); devices.synchronise()
start = time.monotonic(); product(a); dispatched = time.monotonic() - start
devices.synchronise(); waited = time.monotonic() - start
start = time.monotonic(); devices.synchronise(); idle = time.monotonic() - start
print(json.dumps({"dispatched": dispatched, "waited": waited, "idle": idle}))
"""


def test_synchronise_waits_for_dispatched_work(execute):
    result = execute(SYNC)
    assert result["dispatched"] < result["waited"] / 2
    assert result["idle"] < result["waited"] / 2
