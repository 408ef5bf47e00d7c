"""The models match the published ones: layers, activations, optimizers, losses, sizes."""

import pytest

pytestmark = pytest.mark.tensorflow

INSPECT = """
import json
from workloads.driver import building, workload_file, tuning
from workloads.protocol import Spec
def described(layer):
    sizes = [getattr(layer, name, None) for name in ("filters", "units", "rate")]
    activation = getattr(getattr(layer, "activation", None), "__name__", "")
    return " ".join(str(part) for part in (type(layer).__name__, *sizes, activation) if part)
models = {}
for file, name in NAMES:
    loaded = workload_file.load(file, name)
    for variant in ("baseline", "tuned"):
        params = tuning.variant_params(loaded.workload, Spec(), variant)
        model = building.build(loaded.model, params, strategy=None, seed=1)
        models[f"{name} {variant}"] = {
            "layers": [described(layer) for layer in model.layers if type(layer).__name__ != "OnDevice"],
            "setup": [type(model.optimizer).__name__, model.loss, list(model.input_shape[1:])],
            "parameters": model.count_params(), "jit": model.jit_compile,
        }
print(json.dumps(models))
"""
POOLED = "MaxPooling2D"
SIGMOID = "Dense 1 sigmoid"
BINARY = ("Adam", "binary_crossentropy")
SPARSE = "sparse_categorical_crossentropy"


def dense(*units: int, last: str) -> list[str]:
    return [*(f"Dense {count} relu" for count in units), last]


def convolutions(*filters: int) -> list[str]:
    layers = (layer for count in filters for layer in (f"Conv2D {count} relu", POOLED))
    return [*layers, "Flatten", "Dense 128 relu"]


def normalised(*groups: tuple[int, int]) -> list[str]:
    block = "Conv2D {} linear", "BatchNormalization", "ReLU"
    layers = []
    for count, filters in groups:
        layers += [*[each.format(filters) for each in block] * count, POOLED]
    return layers


# Workload -> layers, (optimizer, loss, input shape), number of parameters if known.
PUBLISHED = {
    ("mlp.py", "cifar100-mlp"): (
        ["Flatten", *dense(512, 256, last="Dense 100 softmax")], ("Adam", "categorical_crossentropy", [32, 32, 3]),
        3073 * 512 + 513 * 256 + 257 * 100),
    ("mlp.py", "cifar10-mlp"): (
        ["Flatten", *dense(3000, 1000, last="Dense 10 sigmoid")], ("SGD", SPARSE, [32, 32, 3]),
        3073 * 3000 + 3001 * 1000 + 1001 * 10),
    ("mlp.py", "fashion-mnist-mlp"): (
        ["Flatten", *dense(*[500] * 5, last="Dense 10 sigmoid")], ("Adam", SPARSE, [28, 28]),
        785 * 500 + 4 * 501 * 500 + 501 * 10),
    ("cats_dogs.py", "cats-dogs"): ([*convolutions(32, 32), SIGMOID], (*BINARY, [64, 64, 3]), None),
    ("cats_dogs.py", "cats-dogs-3conv"): ([*convolutions(32, 32, 64), SIGMOID], (*BINARY, [64, 64, 3]), None),
    ("cats_dogs.py", "cats-dogs-dropout"): (
        [*convolutions(32, 32, 64), "Dropout 0.5", SIGMOID], (*BINARY, [64, 64, 3]), None),
    ("cats_dogs.py", "cats-dogs-128"): (
        [*convolutions(64, 64, 64), "Dropout 0.5", SIGMOID], (*BINARY, [128, 128, 3]), None),
    ("cats_dogs.py", "cats-dogs-deep"): (
        [*normalised((6, 32), (6, 64), (7, 128), (7, 256), (6, 256)), "GlobalAveragePooling2D", SIGMOID],
        (*BINARY, [128, 128, 3]), None),
    ("imdb.py", "imdb-pooled"): (
        ["Embedding", "Dropout 0.2", "GlobalAveragePooling1D", "Dropout 0.2", SIGMOID], (*BINARY, [250]),
        10_000 * 16 + 16 + 1),
    ("imdb.py", "imdb-lstm"): (
        ["Embedding", "Bidirectional", "Bidirectional", SIGMOID], (*BINARY, [200]),
        20_000 * 128 + 4 * 4 * 64 * (128 + 64 + 1) + 129),
}  # fmt: skip


@pytest.fixture(scope="module")
def models(script):
    return script(INSPECT.replace("NAMES", repr(tuple(PUBLISHED))))


@pytest.mark.parametrize("workload", PUBLISHED, ids=lambda workload: workload[1])
def test_variants_train_the_published_model_and_the_baseline_has_no_xla(models, workload):
    layers, setup, parameters = PUBLISHED[workload]
    for variant in ("baseline", "tuned"):
        model = models[f"{workload[1]} {variant}"]
        assert model["layers"] == layers
        assert tuple(model["setup"]) == setup
        assert parameters in (None, model["parameters"])
    assert models[f"{workload[1]} baseline"]["jit"] is False


RESNET = """
import json
import numpy as np
import tensorflow as tf
from workloads import resnet50
plain, fused = (resnet50.resnet50(fused_batch_norm=value) for value in (False, True))
fused.set_weights(plain.get_weights())
x = np.random.default_rng(0).standard_normal((2, 224, 224, 3), dtype=np.float32)
def step(model):
    with tf.GradientTape() as tape:
        loss = -tf.reduce_mean(tf.math.log(model(x, training=True)[:, 3]))
    grads = tape.gradient(loss, model.trainable_variables)
    return float(loss), [float(tf.norm(g)) for g in grads], [w.numpy() for w in model.non_trainable_weights]
first, second = step(plain), step(fused)
folded = resnet50.folded(plain)
predicted = [model.predict(x, verbose=0) for model in (plain, folded)]
moved = [float(np.max(np.abs(a - b)) / (np.max(np.abs(a)) + 1e-9)) for a, b in zip(first[2], second[2])]
print(json.dumps({"parameters": plain.count_params(),
    "fused": fused.count_params(), "folded": folded.count_params(),
    "predicted": float(np.max(np.abs(predicted[0] - predicted[1]) / predicted[0])),
    "losses": [first[0], second[0]], "norms": [first[1], second[1]], "moved": moved}))
"""


def test_resnet_v1_5_with_plain_fused_and_folded_normalisation_is_equivalent(script):
    result = script(RESNET)
    # torchvision's resnet50: 25,557,032 weights, and 53,120 means and variances.
    assert result["parameters"] == 25_557_032 + 53_120
    assert result["parameters"] == result["fused"]
    # Folding replaces four values for each of 26,560 channels by one bias.
    assert result["folded"] == result["parameters"] - 3 * 26_560
    assert result["predicted"] < 1e-3
    assert result["losses"][0] == pytest.approx(result["losses"][1], rel=1e-3)
    assert result["norms"][0] == pytest.approx(result["norms"][1], rel=0.05, abs=1e-5)
    # The kernel scales the variance by n / (n - 1), at most 98 / 97 in the last group.
    assert max(result["moved"]) < 0.02


POOLING = """
import json
import tensorflow as tf
from workloads import resnet50
differences = []
for side in (8, 9, 112):
    x = tf.random.stateless_normal([2, side, side, 3], seed=(1, side))
    weights = tf.random.stateless_normal([2, (side + 1) // 2, (side + 1) // 2, 3], seed=(2, side))
    results = []
    for pool in (lambda inputs: tf.nn.max_pool2d(inputs, 3, 2, "SAME"), resnet50.SlicedMaxPooling()):
        with tf.GradientTape() as tape:
            tape.watch(x)
            pooled = pool(x)
            total = tf.reduce_sum(weights * pooled)
        results.append((pooled, tape.gradient(total, x)))
    differences.append([float(tf.reduce_max(tf.abs(a - b))) for a, b in zip(*results)])
print(json.dumps(differences))
"""


def test_sliced_pooling_equals_max_pooling_with_its_gradient(script):
    for value, gradient in script(POOLING):
        assert value == 0
        assert gradient < 1e-5
