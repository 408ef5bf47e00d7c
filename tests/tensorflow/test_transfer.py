"""Transfer learning and training from scratch: the same network, frozen or not, and initial weights."""

import pytest

pytestmark = pytest.mark.tensorflow

COMPARED = """
import json, tempfile
import numpy as np
import tensorflow as tf
from workloads.driver import building, workload_file, tuning
from workloads.protocol import Spec
def built(name, seed=1, **more):
    loaded = workload_file.load("transfer.py", name)
    params = tuning.variant_params(loaded.workload, Spec(**more), "baseline")
    model = building.build(loaded.model, params, strategy=None, seed=seed)
    return model, loaded.facts(params)["weights of the backbone"]
transfer, seeded = built("transfer-learning")
scratch, _ = built("from-scratch")
path = tempfile.mkdtemp() + "/trained.weights.h5"
scratch.layers[3].save_weights(path)
trained, fact = built("transfer-learning", seed=2, weights=path)
equal = lambda a, b: all(np.array_equal(x, y) for x, y in zip(a, b))
same = lambda a, b: equal(a.layers[3].get_weights(), b.layers[3].get_weights())
x = np.random.default_rng(0).random((8, 32, 32, 3), dtype=np.float32)
before = transfer.layers[3].get_weights()
transfer.fit(x, np.zeros(8), verbose=0)
print(json.dumps({
    "parameters": [transfer.count_params(), scratch.count_params()],
    "trainable": [len(transfer.trainable_weights), len(scratch.trainable_weights)],
    "layers": [[type(layer).__name__ for layer in model.layers] for model in (transfer, scratch)],
    "loaded": [same(trained, scratch), same(transfer, scratch)], "facts": [seeded, fact],
    "frozen": equal(before, transfer.layers[3].get_weights()),
    "signal": float(np.std(tf.keras.Model(transfer.input, transfer.layers[-3].input)(x).numpy())),
}))
"""


def test_both_have_the_same_network_and_transfer_learning_trains_only_the_head(script):
    result = script(COMPARED)
    assert result["parameters"] == [2_257_984 + 12_810] * 2
    assert result["layers"][0] == result["layers"][1]
    assert result["trainable"][0] == 2
    assert result["trainable"][1] > 100
    assert result["frozen"], "the backbone does not change"
    assert result["signal"] > 0.1, "the signal of random weights does not fade"
    assert result["loaded"] == [True, False]
    assert result["facts"][0].startswith("seeded random")
    assert result["facts"][1].startswith("from the file trained.weights.h5")
