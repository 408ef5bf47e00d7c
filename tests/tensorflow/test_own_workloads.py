"""Workload files as users write them: several inputs, sample weights, callbacks, metrics."""

from pathlib import Path

import pytest

from workloads.protocol import BASELINE, CUSTOM_LOOP, INPUT_ONLY, MODEL_ONLY, TUNED

pytestmark = pytest.mark.tensorflow

HEAD = """
import numpy as np
import tensorflow as tf
from workloads.protocol import Data, Workload
workload = Workload(
    name="own", title="O", data=Data(name="own", shape=(4,), classes=2, train=100, test=20), batch_size=8, epochs=1,
    stages={stages},
)
layers = tf.keras.layers
def model(params):
    a, b = layers.Input((4,), name="a"), layers.Input((4,), name="b")
    net = tf.keras.Model({{"a": a, "b": b}}, layers.Dense(2)(layers.Concatenate()([a, b])))
    net.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return net
"""
PIPELINE = """
x, y = np.ones((100, 4), np.float32), np.zeros(100, np.int32)
def dataset(params, data_dir):
    samples = ({"a": x, "b": x}, y, np.ones(100, np.float32))
    return (
        ("read", lambda: tf.data.Dataset.from_tensor_slices(samples)),
        ("STAGE", lambda before: before.batch(params["batch_size"], drop_remainder=True)),
    )
"""
# One array as input, and two accuracies of which the first declared is not the plain one.
SIMPLE = """
def model(params):
    net = tf.keras.Sequential([layers.Input((4,)), layers.Dense(2, activation="softmax")])
    top = tf.keras.metrics.SparseTopKCategoricalAccuracy(k=2)
    net.compile("sgd", "sparse_categorical_crossentropy", metrics=[top, "accuracy"])
    return net
"""


@pytest.fixture
def own(tmp_path, data_dir):
    def write(more, stages=()):
        path = tmp_path / "own.py"
        path.write_text(HEAD.format(stages=stages) + more)
        return {"file": str(path), "data_dir": data_dir((4,), 2, 100, 20)}

    return write


def test_batches_of_several_inputs_with_sample_weights_are_analysed(drive, own):
    variants = [BASELINE, TUNED, INPUT_ONLY, MODEL_ONLY, CUSTOM_LOOP, "batch:4", "calls:10", "stage:batch"]
    done = drive(**own(PIPELINE.replace("STAGE", "batch"), ("read", "batch")), variants=variants)
    assert not done.of("left-out")
    assert done.per_step() == dict.fromkeys(variants, 8) | {"batch:4": 32}


def test_a_resident_batch_counts_as_what_it_holds(drive, own):
    more = PIPELINE.replace("STAGE", "batch").replace('{"a": x, "b": x}, y, np.ones(100, np.float32)', "x, y")
    file = own(SIMPLE + more.replace('params["batch_size"]', "5"), ("read", "batch"))
    done = drive(**file, variants=[BASELINE, TUNED], params={"feed": "resident", "steps_per_execution": 2})
    assert done.per_step() == {BASELINE: 5, TUNED: 5}


def test_stages_are_not_measured_if_none_is_named_batch(drive, own):
    done = drive(
        **own(PIPELINE.replace("STAGE", "group"), ("read", "group")), variants=[BASELINE, "stage:group"]
    )
    (left_out,) = done.of("left-out")
    assert left_out["variant"] == "stage:group"
    assert done.per_step() == {BASELINE: 8}


def test_inference_with_several_inputs_is_rejected(drive, own):
    own_file = own(PIPELINE.replace("STAGE", "batch"), ("read", "batch"))
    path = Path(own_file["file"])
    path.write_text(path.read_text().replace("epochs=1", 'epochs=1, task="infer"'))
    (error,) = drive(**own_file, variants=[BASELINE], code=1).of("error")
    assert error["type"] == "WorkloadFileError"


@pytest.mark.parametrize("samples", ['{"a": x, "b": x}, y', "[x, x], y", "x, y, y"])
def test_arrays_of_several_inputs_or_with_weights_are_rejected(drive, own, samples):
    more = (
        f"x, y = np.ones((100, 4), np.float32), np.zeros(100)\ndef data(*_):\n    return (({samples}),) * 2\n"
    )
    (error,) = drive(**own(more), code=1).of("error")
    assert error["type"] == "WorkloadFileError"


def test_the_accuracy_is_not_that_of_another_metric(drive, own):
    done = drive(**own(SIMPLE), variants=[BASELINE])
    assert done.metric(BASELINE, "accuracy") < 1, "of two classes the top two are always right"


def test_a_training_that_ends_before_it_is_measured_is_an_error(drive, own):
    more = """
def callbacks(params):
    return [tf.keras.callbacks.EarlyStopping(monitor="loss", patience=0, min_delta=100.0)]
"""
    (error,) = drive(**own(SIMPLE + more), variants=[BASELINE], steps=50, code=1).of("error")
    assert error["type"] == "WorkloadFileError"


def test_callbacks_made_of_functions_are_timed(script):
    code = """
import json
from workloads.driver.python_calls import Stopwatch
def timed(callback):
    stopwatch = Stopwatch()
    stopwatch.callbacks([callback])
    return stopwatch.wrapped
kinds = tf.keras.callbacks
print(json.dumps([timed(kinds.LambdaCallback(on_train_batch_end=print)), timed(kinds.LambdaCallback()),
                  timed(kinds.TerminateOnNaN()), timed(kinds.EarlyStopping())]))
"""
    assert script(code) == [True, False, True, False]
