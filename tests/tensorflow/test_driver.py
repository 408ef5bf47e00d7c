import itertools
from pathlib import Path

import pytest

from workloads.protocol import BASELINE, BATCH_BYTES, INPUT_ONLY, MODEL_ONLY, TUNED, VARIANTS

pytestmark = pytest.mark.tensorflow

CLASSES, STEPS, WINDOWS = 100, 150, 2
# Name -> text in PIPED that tests replace.
REPLACEABLE = {
    "numbers": "range(400)", "batch": '.batch(params["batch_size"], drop_remainder=True)', "train": "train=0",
    "epochs": "epochs=1,",
}  # fmt: skip


@pytest.fixture
def piped(tmp_path):
    def write(**changes):
        text, path = PIPED, tmp_path / "piped.py"
        for old, new in changes.items():
            text = text.replace(REPLACEABLE[old], new)
        path.write_text(text)
        return str(path)

    return write


@pytest.fixture(scope="module")
def outcome(drive, data_dir):
    return drive(file="mlp.py", workload="cifar100-mlp", variants=VARIANTS, windows=WINDOWS, steps=STEPS,
                 data_dir=data_dir((32, 32, 3), CLASSES, 6000))  # fmt: skip


def test_the_start_event_precedes_the_import_of_tensorflow_and_end_is_last(outcome):
    kinds = [event["kind"] for event in outcome.events]
    assert (kinds[0], kinds[-1]) == ("start", "end")
    (imported,) = outcome.of("phase", name="import")
    assert imported["start_ns"] > outcome.events[0]["t_ns"]
    (event,) = outcome.of("facts")
    assert event["facts"]["devices"] == "CPU:0"
    assert event["facts"]["tensorflow"].startswith("2.")


def test_cold_start_is_separate_from_steady_state(outcome):
    for variant in VARIANTS:
        names = [event["name"] for event in outcome.of("phase", variant=variant)]
        data = ["data"] if variant == TUNED else []
        evaluate = ["evaluate"] if variant in (BASELINE, TUNED) else []
        assert names == ["build", *data, "first-step", "warm-up", *["steady"] * WINDOWS, *evaluate]
        phases = outcome.of("phase", variant=variant)
        assert all(a["end_ns"] <= b["start_ns"] for a, b in itertools.pairwise(phases))


def test_windows_are_consecutive_and_have_the_requested_steps(outcome):
    windows = outcome.of("window")
    assert [(window["variant"], window["index"]) for window in windows] == [
        (variant, index) for variant in VARIANTS for index in range(WINDOWS)
    ]
    for before, after in itertools.pairwise(windows):
        assert before["end_ns"] <= after["start_ns"]
    for window in windows:
        assert window["steps"] >= STEPS
        # The last batch of an epoch is short in Keras.
        assert 0.8 * 32 * window["steps"] <= window["samples"] <= 32 * window["steps"]
        (single,) = outcome.of("steps", variant=window["variant"], window=window["index"])
        assert all(value > 0 for value in single["step_ns"])


def test_input_wait_is_reported_where_it_is_known(outcome):
    assert all(event["wait_ns"] == -1 for event in outcome.of("window", variant=BASELINE))
    assert all(event["wait_ns"] == 0 for event in outcome.of("window", variant=MODEL_ONLY))
    for event in outcome.of("window", variant=INPUT_ONLY):
        # Windows last a few milliseconds, of which much is not input wait on a busy machine.
        assert 0.3 < event["wait_ns"] / (event["end_ns"] - event["start_ns"]) <= 1.0


def test_training_reaches_accuracy_far_above_chance(outcome):
    chance = 1 / CLASSES
    assert outcome.metric(BASELINE, "accuracy") > 5 * chance
    assert outcome.metric(TUNED, "accuracy") > 5 * chance
    assert outcome.metric(TUNED, "final_loss") < 5


def test_a_whole_training_runs_all_epochs(drive, data_dir):
    done = drive(
        file="mlp.py", workload="fashion-mnist-mlp", variants=[BASELINE, TUNED, MODEL_ONLY], full=True, window_s=0.2,
        data_dir=data_dir((28, 28), 10, 1000), params={"epochs": 3},
    )  # fmt: skip
    assert done.metric(BASELINE, "steps_trained") == 3 * 32
    # With calls of 20 steps the last call may exceed the total but never falls short.
    assert 3000 / 32 <= done.metric(TUNED, "steps_trained") < 3000 / 32 + 20
    for variant in (BASELINE, TUNED):
        assert done.metric(variant, "training_s") > 0
        assert done.metric(variant, "accuracy") > 0.5
    assert len(done.of("window", variant=MODEL_ONLY)) == 2


def test_the_example_file_runs_with_default_tuned_parameters(drive, data_dir):
    done = drive(
        file="examples/my_workload.py", variants=VARIANTS, data_dir=data_dir((32, 32, 3), 10),
        params={"filters": 4, "batch_size": 50}, steps=20,
    )  # fmt: skip
    assert done.of("variant", variant=TUNED)[0]["params"]["feed"] == "resident"
    assert done.per_step() == dict.fromkeys(VARIANTS, 50)
    assert done.metric(BASELINE, "accuracy") > 0.3


def test_optimizations_and_pipeline_stages_are_variants(drive, piped):
    variants = [BASELINE, INPUT_ONLY, "stage:make", "stage:batch", TUNED, "opt:bigger", "opt:gpu-only"]
    done = drive(file=piped(), variants=variants)
    (left_out,) = done.of("left-out")
    assert left_out["variant"] == "opt:gpu-only"
    # Before the batch stage samples are drained in groups of 16.
    assert done.per_step() == {
        BASELINE: 4, INPUT_ONLY: 4, "stage:make": 16, "stage:batch": 4, TUNED: 4, "opt:bigger": 8,
    }  # fmt: skip


def test_variants_of_the_step_time_breakdown(drive, piped):
    variants = [
        BASELINE, INPUT_ONLY, MODEL_ONLY, "custom-loop", "batch:2", "batch:4", "calls:10", "host-fed",
        "stage:batch", "without:input", "parallel-input", "threads:1",
    ]  # fmt: skip
    done = drive(file=piped(), variants=variants)
    assert not done.of("warning")
    # No copies on a CPU.
    assert [event["variant"] for event in done.of("needless")] == ["host-fed"]
    fours = dict.fromkeys((variant for variant in variants if variant != "host-fed"), 4)
    assert done.per_step() == {**fours, "batch:2": 8, "batch:4": 16}
    for event in done.of("window", variant="custom-loop"):
        assert 0 <= event["wait_ns"] < event["end_ns"] - event["start_ns"]
    assert done.metric(BASELINE, BATCH_BYTES) == 4 * (3 * 4 + 8)
    (parallel,) = done.of("variant", variant="parallel-input")
    assert {change["what"] for change in parallel["changes"]} == {"parallel_maps", "prefetch_batches"}
    (fed,) = done.of("variant", variant="without:input")
    assert [(change["what"], change["after"]) for change in fed["changes"]] == [("feed", "memory")]


def test_a_short_batch_counts_as_what_it_holds(drive, piped):
    """600 samples make one batch of 512 and one of 88."""
    file = piped(numbers="range(600)", batch='.batch(params["batch_size"])')
    variants = [INPUT_ONLY, "stage:batch"]
    done = drive(file=file, variants=variants, params={"batch_size": 512}, windows=1, steps=400)
    for variant in variants:
        (window,) = done.of("window", variant=variant)
        # A window may begin and end within an epoch.
        assert window["samples"] == pytest.approx(300 * window["steps"], abs=512)


ENDS = {
    "short": (".batch(512)", {}, 300),
    "in calls": (".batch(512)", {"steps_per_execution": 2}, 300),
    "repeated": (".batch(512).repeat()", {}, 300),
    "unknown": (".filter(lambda x, y: True).batch(200)", {"batch_size": 200}, 200),
}


@pytest.mark.parametrize("end", ENDS)
def test_samples_of_fit_include_short_batches(drive, piped, end):
    """600 samples make one batch of 512 and one of 88."""
    batching, params, samples_per_step = ENDS[end]
    file = piped(numbers="range(600)", batch=batching)
    done = drive(file=file, variants=[BASELINE], params={"batch_size": 512, **params}, windows=1, steps=60)
    (window,) = done.of("window")
    # A window may begin and end within an epoch.
    assert window["samples"] == pytest.approx(samples_per_step * window["steps"], abs=512)
    assert bool(done.of("warning")) == (end == "unknown")


COUNTING = """
class Steps(tf.keras.callbacks.Callback):
    def on_train_end(self, logs=None):
        print("Keras ran steps:", int(self.model.optimizer.iterations))
def callbacks(params):
    return [Steps()]
"""


@pytest.mark.parametrize("numbers", ["range(80)", "range(80).repeat()", "range(80).filter(lambda i: True)"])
@pytest.mark.parametrize("samples_per_epoch", [0, 40, 56])
def test_steps_of_calls_of_several_are_those_that_keras_ran(drive, piped, numbers, samples_per_epoch):
    """An input of 20 batches, and epochs of all of them, of one call or of one call and a half."""
    file = Path(piped(numbers=numbers, epochs=f"epochs=1, samples_per_epoch={samples_per_epoch},"))
    file.write_text(file.read_text() + COUNTING)
    done = drive(
        file=str(file), variants=[BASELINE], params={"steps_per_execution": 10}, windows=1, steps=200
    )
    ran = int(done.log.partition("Keras ran steps: ")[2].split()[0])
    # The last two calls of fit are not measured.
    assert ran - 20 <= done.metric(BASELINE, "steps_trained") <= ran


def test_a_whole_training_does_not_count_empty_steps(drive, piped, data_dir):
    file = piped(numbers="range(600).filter(lambda i: True)", train="train=600")
    done = drive(
        file=file, variants=[BASELINE], params={"batch_size": 200, "epochs": 3}, full=True,
        data_dir=data_dir((3,), 2, 600),
    )  # fmt: skip
    assert done.metric(BASELINE, "steps_trained") == 9


def test_a_whole_training_on_an_endless_pipeline_requires_samples_per_epoch(drive, piped, data_dir):
    endless = {"numbers": "range(400).repeat()", "train": "train=400"}
    fields = {"variants": [BASELINE], "full": True, "data_dir": data_dir((3,), 2, 400)}
    done = drive(file=piped(**endless), **fields, code=1)
    (error,) = done.of("error")
    assert error["type"] == "WorkloadFileError"
    assert "Declare samples_per_epoch" in error["message"]
    done = drive(file=piped(**endless, epochs="epochs=1, samples_per_epoch=400,"), **fields)
    assert done.metric(BASELINE, "steps_trained") == 100


def test_the_pipeline_example_runs_all_epochs(drive, data_dir):
    done = drive(
        file="examples/my_pipeline.py", variants=[BASELINE, INPUT_ONLY], full=True,
        data_dir=data_dir((32, 32, 3), 10, 128), params={"side": 16, "epochs": 3},
    )  # fmt: skip
    assert done.metric(BASELINE, "steps_trained") == 3 * 2


def test_input_wait_of_a_slow_pipeline_with_and_without_prefetching(drive, tmp_path):
    """8 ms of input per batch and 12 ms per step."""
    waits = {}
    for name, more in (("slow", ""), ("ahead", ".prefetch(2)")):
        path = tmp_path / f"{name}.py"
        path.write_text(SLOW.replace("# more", more))
        done = drive(file=str(path), variants=[BASELINE, "custom-loop"], steps=20)
        windows = done.of("window", variant="custom-loop")
        waits[name] = sum(each["wait_ns"] for each in windows) / sum(each["steps"] for each in windows) / 1e6
    assert waits["slow"] > 7
    assert waits["ahead"] < 0.7 * waits["slow"]


SLOW = """
import time
import tensorflow as tf
from workloads.protocol import Data, Workload
workload = Workload(
    name="slow", title="S", data=Data(name="own", shape=(3,), classes=2, train=0, test=0),
    batch_size=4, epochs=1, params={"jit_compile": False},
)
class Waiting(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = tf.keras.layers.Dense(2)
    def call(self, x, training=False):
        return self.dense(x)
    def train_step(self, data):
        with tf.control_dependencies([tf.numpy_function(lambda: time.sleep(0.012) or 0.0, [], tf.double)]):
            return {"own name": super().train_step(data)["loss"]}
def model(params):
    net = Waiting()
    net.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return net
def slowly(i):
    time.sleep(0.002)
    return float(i % 2)
def dataset(params, data_dir):
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    def prepare(i):
        x = tf.ensure_shape(tf.numpy_function(slowly, [i], tf.double), [])
        return tf.fill([3], tf.cast(x, tf.float32)), i % 2
    return (
        ("make", lambda: tf.data.Dataset.range(4000)),
        ("wait", lambda ds: ds.map(prepare)),
        ("batch", lambda ds: ds.batch(4, drop_remainder=True).with_options(options)# more
        ),
    )
"""

PIPED = """
import tensorflow as tf
from workloads.protocol import Data, Workload
workload = Workload(
    name="piped", title="P", data=Data(name="own", shape=(3,), classes=2, train=0, test=0),
    batch_size=4, epochs=1, stages=("make", "spread", "cache", "batch"),
    optimizations={"bigger": {"batch_size": 8}, "gpu-only": {"gpu:precision": "fp16"}},
)
def model(params):
    net = tf.keras.Sequential([tf.keras.layers.Input((3,)), tf.keras.layers.Dense(2)])
    net.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return net
def dataset(params, data_dir):
    return (
        ("make", lambda: tf.data.Dataset.range(400)),
        ("spread", lambda ds: ds.map(lambda i: (tf.fill([3], tf.cast(i % 2, tf.float32)), i % 2))),
        ("cache", lambda ds: ds.cache()),
        ("batch", lambda ds: ds.batch(params["batch_size"], drop_remainder=True)),
    )
"""
