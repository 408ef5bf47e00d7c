"""Files that built-in scripts import: they compute what they replace."""

import itertools

import pytest

pytestmark = pytest.mark.tensorflow

SIX_STEPS = """
import json
import numpy as np
import tensorflow as tf
from loss_scaling import BranchFreeLossScaling
def trained(kind, jit, spoilt):
    variables = [tf.keras.Variable(np.ones((4, 3), np.float32)), tf.keras.Variable(np.zeros(3, np.float32))]
    optimizer = kind(tf.keras.optimizers.SGD(0.1, momentum=0.9), initial_scale=8.0, dynamic_growth_steps=3)
    optimizer.build(variables)
    def step(number):
        grads = [8.0 * (number + 1) * tf.ones_like(variable.value) for variable in variables]
        grads[0] = tf.where(tf.equal(number, spoilt), np.inf, grads[0])
        optimizer.apply(grads, variables)
    run = tf.function(step, jit_compile=jit, autograph=False)
    for number in range(6):
        run(tf.constant(float(number)))
    return [variable.numpy().astype(float).ravel().tolist() for variable in (*variables, *optimizer.variables)]
print(json.dumps([[trained(tf.keras.optimizers.LossScaleOptimizer, False, spoilt),
                   trained(BranchFreeLossScaling, False, spoilt), trained(BranchFreeLossScaling, True, spoilt)]
                  for spoilt in (-1.0, 2.0)]))
"""


def test_weights_momenta_and_scale_equal_those_of_keras(execute):
    results = execute(SIX_STEPS)
    for keras, *ours in results:
        for values in ours:
            assert [pytest.approx(value, rel=1e-5) for value in keras] == values
    assert results[0][0] != results[1][0], "a step was skipped"


EQUAL_STEPS = """
import json
import tempfile
import keras
import numpy as np
import tensorflow as tf
from many_steps import INDICES, train_many_steps
def network():
    keras.utils.set_random_seed(1)
    layers = keras.layers
    return keras.Sequential([layers.Input((6,)), layers.Dense(5, activation="relu"), layers.BatchNormalization(),
                             layers.Dense(3, activation="softmax")])
settings = {"loss": "sparse_categorical_crossentropy", "metrics": ["accuracy"], "jit_compile": JIT}
random = np.random.default_rng(0)
x, y = random.random((48, 6), np.float32), random.integers(0, 3, 48)
plain = network()
plain.compile(keras.optimizers.SGD(0.1, momentum=0.9), **settings)
history = plain.fit(x, y, batch_size=8, shuffle=False, epochs=2, verbose=0).history
many = network()
many.compile(keras.optimizers.SGD(0.1, momentum=0.9), **settings)
train_many_steps(many, x.astype("float64"), y, 8)
indices = tf.data.Dataset.range(48).map(lambda i: tf.cast(i, tf.int32)).batch(8 * STEPS, drop_remainder=True)
indices = indices.map(lambda each: {INDICES: each})
told = many.fit(indices, epochs=2, verbose=0).history
apart = [float(np.abs(a - b).max()) for a, b in zip(plain.get_weights(), many.get_weights(), strict=True)]
folder = tempfile.mkdtemp()
many.save_weights(folder + "/a.weights.h5")
plain.load_weights(folder + "/a.weights.h5")
plain.save_weights(folder + "/b.weights.h5")
many.load_weights(folder + "/b.weights.h5")
assert all((a == b).all() for a, b in zip(plain.get_weights(), many.get_weights(), strict=True))
many.save(folder + "/c.keras")
loaded = keras.saving.load_model(folder + "/c.keras")
assert loaded.evaluate(x, y, verbose=0) == many.evaluate(x, y, verbose=0)
assert loaded.optimizer.iterations == many.optimizer.iterations == 12
loaded.fit(x, y, verbose=0)
print(json.dumps([max(apart), history, told]))
"""


@pytest.mark.parametrize(("steps", "jit"), [(1, False), (3, False), (6, True)])
def test_many_steps_train_as_plain_fit(execute, steps, jit):
    apart, history, told = execute(EQUAL_STEPS.replace("JIT", str(jit)).replace("STEPS", str(steps)))
    assert apart < 1e-5
    for name, values in history.items():
        assert told[name] == pytest.approx(values, rel=1e-4)


TABLES = """
import json
import keras
import numpy as np
import tensorflow as tf
from many_steps import shuffled, train_many_steps
class Table:
    def __init__(self, values):
        self.values = values
    def to_numpy(self):
        return self.values
model, shapes, refused = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)]), [], ""
def loss(true, predicted):
    shapes.append([*true.shape])
    return tf.reduce_mean(tf.square(true - predicted))
model.compile("sgd", loss)
train_many_steps(model, Table(np.ones((16, 4))), Table(np.ones(16)), 8)
model.fit(shuffled(16, 16), steps_per_epoch=1, verbose=0)
try:
    train_many_steps(model, [np.ones(4)] * 16, np.ones(16), 8)
except TypeError as error:
    refused = str(error)
model.train_function, own = (lambda batches: {}), ""
try:
    train_many_steps(model, np.ones((16, 4)), np.ones(16), 8)
except TypeError as error:
    own = str(error)
print(json.dumps([shapes, refused, own]))
"""


def test_a_series_is_a_column_and_lists_are_no_arrays(execute):
    shapes, refused, own = execute(TABLES)
    assert {*map(tuple, shapes)} == {(8, 1)}
    assert "take arrays, and not list" in refused and "train_function of its own" in own


PERMUTATIONS = """
import json
from many_steps import INDICES, shuffled
print(json.dumps([[taken[INDICES].numpy().tolist() for taken in shuffled(10, size).take(40 // size + 1)]
                  for size in (3, 10, 27)]))
"""


def test_every_sample_occurs_once_per_epoch_for_any_call_size(execute):
    for size, taken in zip((3, 10, 27), execute(PERMUTATIONS), strict=True):
        assert {len(part) for part in taken} == {size}
        joined = list(itertools.chain.from_iterable(taken))
        epochs = [joined[start : start + 10] for start in range(0, 40, 10)]
        assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
        assert len({tuple(epoch) for epoch in epochs}) == 4


WARP = """
import json
import numpy as np
import tensorflow as tf
from random_warp import RandomWarp, warp
from keras.src.legacy.preprocessing.image import apply_affine_transform
tf.keras.utils.set_random_seed(3)
# Square, because Keras swaps height and width when it computes the centre.
images = np.random.default_rng(0).random((5, 16, 16, 3), dtype=np.float32)
layer = RandomWarp(shear=0.2, zoom=0.2)
maps = layer.random_maps(tf.constant(images))
batch = warp(tf.constant(images), maps).numpy()
xla = tf.function(warp, jit_compile=True)(tf.constant(images), maps).numpy()
a, b, _, _, e, _ = (column.numpy() for column in tf.unstack(maps, axis=1))
keras = []
for image, zx, zy_sin, zy_cos in zip(images, a, b, e):
    zy = float(np.hypot(zy_sin, zy_cos))
    angle = float(np.rad2deg(np.arctan2(-zy_sin, zy_cos)))
    moved = apply_affine_transform(
        image, shear=angle, zx=abs(float(zx)), zy=zy, row_axis=0, col_axis=1, channel_axis=2,
        fill_mode="nearest", order=1)
    keras.append(moved[:, ::-1] if zx < 0 else moved)
print(json.dumps({"flips": int((a < 0).sum()), "xla": float(np.abs(xla - batch).max()),
    "keras": float(np.abs(np.stack(keras) - batch).max()),
    "held out": float(np.abs(layer(images, training=False) - images).max()),
    "in training": float(np.abs(layer(images, training=True) - images).max())}))
"""


def test_augmentation_on_the_device_equals_keras(execute):
    result = execute(WARP)
    assert 0 < result["flips"] < 5
    assert result["xla"] < 1e-4
    assert result["keras"] < 1e-4
    assert result["held out"] == 0
    assert result["in training"] > 0.1


RESNET = """
import json
import numpy as np
import tensorflow as tf
from resnet_v15 import folded as fold, resnet50
from gpu_layers import FusedBatchNormalization
plain, fused = resnet50(), resnet50(FusedBatchNormalization)
fused.set_weights(plain.get_weights())
x = np.random.default_rng(0).standard_normal((2, 224, 224, 3), dtype=np.float32)
def step(model):
    with tf.GradientTape() as tape:
        loss = -tf.reduce_mean(tf.math.log(model(x, training=True)[:, 3]))
    grads = tape.gradient(loss, model.trainable_variables)
    return float(loss), [float(tf.norm(g)) for g in grads], [w.numpy() for w in model.non_trainable_weights]
first, second = step(plain), step(fused)
folded = fold(plain)
predicted = [model.predict(x, verbose=0) for model in (plain, folded)]
moved = [float(np.max(np.abs(a - b)) / (np.max(np.abs(a)) + 1e-9)) for a, b in zip(first[2], second[2])]
print(json.dumps({"parameters": plain.count_params(),
    "fused": fused.count_params(), "folded": folded.count_params(),
    "predicted": float(np.max(np.abs(predicted[0] - predicted[1]) / predicted[0])),
    "losses": [first[0], second[0]], "norms": [first[1], second[1]], "moved": moved}))
"""


def test_resnet_v1_5_with_plain_fused_and_folded_normalisation_is_equivalent(execute):
    result = execute(RESNET)
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
from gpu_layers import SlicedMaxPooling
differences = []
for side in (8, 9, 112):
    x = tf.random.stateless_normal([2, side, side, 3], seed=(1, side))
    weights = tf.random.stateless_normal([2, (side + 1) // 2, (side + 1) // 2, 3], seed=(2, side))
    results = []
    for pool in (lambda inputs: tf.nn.max_pool2d(inputs, 3, 2, "SAME"), SlicedMaxPooling()):
        with tf.GradientTape() as tape:
            tape.watch(x)
            pooled = pool(x)
            total = tf.reduce_sum(weights * pooled)
        results.append((pooled, tape.gradient(total, x)))
    differences.append([float(tf.reduce_max(tf.abs(a - b))) for a, b in zip(*results)])
print(json.dumps(differences))
"""


def test_sliced_pooling_equals_max_pooling_with_its_gradient(execute):
    for value, gradient in execute(POOLING):
        assert value == 0
        assert gradient < 1e-5
