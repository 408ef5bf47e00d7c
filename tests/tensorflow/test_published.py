"""The compiled models are the published ones: layers, activations, optimisers, losses, sizes."""

from __future__ import annotations

import itertools

import pytest

pytestmark = pytest.mark.tensorflow

INSPECT = """
import json
from workloads import building, loading, tuning
from workloads.protocol import Spec
found = {}
for name in ("cifar100-mlp", "cifar10-mlp", "fashion-mnist-mlp"):
    one = loading.load("mlp.py", name)
    for variant in ("baseline", "tuned"):
        params = tuning.variant_params(one.workload, Spec(), variant)
        model = building.build(one.model, params, strategy=None, seed=1)
        found[name + "/" + variant] = {
            "layers": [
                [type(layer).__name__, getattr(layer, "units", None),
                 getattr(getattr(layer, "activation", None), "__name__", None)] for layer in model.layers
            ],
            "optimizer": type(model.optimizer).__name__,
            "loss": model.loss,
            "parameters": model.count_params(),
            "input": list(model.input_shape[1:]),
            "batch": params["batch_size"],
            "jit": model.jit_compile,
        }
print(json.dumps(found))
"""
LAYERS = {
    "cifar100-mlp": [(512, "relu"), (256, "relu"), (100, "softmax")],
    "cifar10-mlp": [(3000, "relu"), (1000, "relu"), (10, "sigmoid")],
    "fashion-mnist-mlp": [(500, "relu")] * 5 + [(10, "sigmoid")],
}
REST = {
    "cifar100-mlp": ("Adam", "categorical_crossentropy", [32, 32, 3]),
    "cifar10-mlp": ("SGD", "sparse_categorical_crossentropy", [32, 32, 3]),
    "fashion-mnist-mlp": ("Adam", "sparse_categorical_crossentropy", [28, 28]),
}


@pytest.fixture(scope="module")
def models(script):
    return script(INSPECT)


@pytest.mark.parametrize("variant", ["baseline", "tuned"])
@pytest.mark.parametrize("name", sorted(LAYERS))
def test_every_variant_trains_the_published_model(models, name, variant):
    found = models[f"{name}/{variant}"]
    dense = [["Dense", units, activation] for units, activation in LAYERS[name]]
    assert found["layers"] == [["Flatten", None, None], *dense]
    assert (found["optimizer"], found["loss"], found["input"]) == REST[name]
    assert found["batch"] == 32
    sizes = [REST[name][2][0] * REST[name][2][1] * (REST[name][2] + [1])[2], *(n for n, _ in LAYERS[name])]
    assert found["parameters"] == sum((a + 1) * b for a, b in itertools.pairwise(sizes))


@pytest.mark.parametrize("name", sorted(LAYERS))
def test_baseline_leaves_xla_off_as_it_was_when_it_was_published(models, name):
    assert models[f"{name}/baseline"]["jit"] is False


RESNET = """
import json
import numpy as np
import tensorflow as tf
from workloads import resnet
plain, fused = (resnet.resnet50(fused_batch_norm=value) for value in (False, True))
fused.set_weights(plain.get_weights())
x = np.random.default_rng(0).standard_normal((2, 224, 224, 3), dtype=np.float32)
def step(model):
    with tf.GradientTape() as tape:
        loss = -tf.reduce_mean(tf.math.log(model(x, training=True)[:, 3]))
    grads = tape.gradient(loss, model.trainable_variables)
    return float(loss), [float(tf.norm(g)) for g in grads], [w.numpy() for w in model.non_trainable_weights]
first, second = step(plain), step(fused)
folded = resnet.folded(plain)
predicted = [model.predict(x, verbose=0) for model in (plain, folded)]
moved = [float(np.max(np.abs(a - b)) / (np.max(np.abs(a)) + 1e-9)) for a, b in zip(first[2], second[2])]
print(json.dumps({"parameters": plain.count_params(),
    "fused": fused.count_params(), "folded": folded.count_params(),
    "predicted": float(np.max(np.abs(predicted[0] - predicted[1]) / predicted[0])),
    "losses": [first[0], second[0]], "norms": [first[1], second[1]], "moved": moved}))
"""


def test_resnet_is_version_1_5_and_fused_or_folded_normalisation_computes_the_same(script):
    found = script(RESNET)
    # torchvision's resnet50: 25,557,032 weights, and 53,120 means and variances.
    assert found["parameters"] == 25_557_032 + 53_120
    assert found["parameters"] == found["fused"]
    # Two values for each of 26,560 channels go into the convolutions, the two others become one bias.
    assert found["folded"] == found["parameters"] - 3 * 26_560
    assert found["predicted"] < 1e-3
    assert found["losses"][0] == pytest.approx(found["losses"][1], rel=1e-3)
    assert found["norms"][0] == pytest.approx(found["norms"][1], rel=0.05, abs=1e-5)
    # The kernel corrects the variance by n / (n - 1), which is largest in the last group: 98 values.
    assert max(found["moved"]) < 0.02


POOLING = """
import json
import tensorflow as tf
from workloads import resnet
found = []
for side in (8, 9, 112):
    x = tf.random.stateless_normal([2, side, side, 3], seed=(1, side))
    weights = tf.random.stateless_normal([2, (side + 1) // 2, (side + 1) // 2, 3], seed=(2, side))
    results = []
    for pool in (lambda one: tf.nn.max_pool2d(one, 3, 2, "SAME"), resnet.SlicedMaxPooling()):
        with tf.GradientTape() as tape:
            tape.watch(x)
            pooled = pool(x)
            total = tf.reduce_sum(weights * pooled)
        results.append((pooled, tape.gradient(total, x)))
    found.append([float(tf.reduce_max(tf.abs(a - b))) for a, b in zip(*results)])
print(json.dumps(found))
"""


def test_sliced_pooling_is_max_pooling_and_has_its_gradient(script):
    for value, gradient in script(POOLING):
        assert value == 0
        assert gradient < 1e-5
