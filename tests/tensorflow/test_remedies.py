"""Remedies that promise the same numbers keep them, and the others train too."""

import json

import numpy as np
import pytest

from harness.fixes import REMEDIES, fixes_for
from harness.fixes.rule import Safety
from tests.tensorflow.conftest import Execute
from workloads.driver.edits import applied

pytestmark = pytest.mark.tensorflow

# All habits that remedies with the same numbers change.
SCRIPT = """
import tempfile
import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(1)
random = np.random.default_rng(0)
x, y = random.random((48, 6), np.float32), random.integers(0, 3, 48)
data = tf.data.Dataset.from_tensor_slices((x, y)).map(lambda row, label: (2 * row, label)).shuffle(48, seed=3).batch(8)
model = keras.Sequential([keras.layers.Input((6,)), keras.layers.Dense(5, activation="relu"),
                          keras.layers.BatchNormalization(), keras.layers.Dense(3, activation="softmax")])
model.compile("adam", "sparse_categorical_crossentropy", run_eagerly=True)
saving = keras.callbacks.ModelCheckpoint(tempfile.mkdtemp() + "/x.weights.h5", save_weights_only=True, save_freq=2)
model.fit(data, epochs=3, callbacks=[saving])
"""
WEIGHTS = """
import io, json, contextlib
result = []
for text in json.loads({texts!r}):
    names = {{"__name__": "__main__"}}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(text, "train.py", "exec"), names)
    result.append([part.astype(float).ravel().tolist() for part in names["model"].get_weights()])
print(json.dumps(result))
"""


def test_remedies_with_the_same_numbers_train_the_same_weights(execute: Execute) -> None:
    # Several steps per call would save less often.
    texts = {"steps-per-execution": SCRIPT.replace("save_freq=2", "save_freq='epoch'")}
    changed = {}
    for rule in REMEDIES.values():
        if rule.safety in (Safety.SAME, Safety.ORDER):
            text = texts.get(rule.name, SCRIPT)
            changed[rule.name] = applied(text, [fixes_for(text, "cpu")[f"fix:{rule.name}"]])
            assert changed[rule.name] != text
    own, *others = execute(WEIGHTS.format(texts=json.dumps([SCRIPT, *changed.values()])))
    for name, weights in zip(changed, others, strict=True):
        for before, after in zip(own, weights, strict=True):
            assert np.allclose(before, after, rtol=1e-4, atol=1e-6), name
