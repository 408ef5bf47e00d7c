"""Floating-point operations of traced steps, against counts by hand."""

import pytest

from tests.tensorflow.texts import HEAD

pytestmark = pytest.mark.tensorflow

STEP = """
import json, keras, tensorflow as tf
from workloads.driver.flops import count_flops

def step(model, x, y, loss="sparse_categorical_crossentropy"):
    model.compile(optimizer="sgd", loss=loss)
    function = tf.function(lambda x, y: model.train_step((x, y)), autograph=False)
    return count_flops(function.get_concrete_function(tf.TensorSpec(x), tf.TensorSpec(y, tf.int64)))

def forward(model, x):
    function = tf.function(lambda x: model(x, training=False), autograph=False)
    return count_flops(function.get_concrete_function(tf.TensorSpec(x)))
"""


BY_HAND = """
def by_hand(model):  # of every layer: weights of the kernel x positions of the output
    return sum(
        2 * layer.kernel.shape.num_elements()
        * (layer.output.shape[1] * layer.output.shape[2] if isinstance(layer, keras.layers.Conv2D) else 1)
        for layer in model.layers if hasattr(layer, "kernel"))
"""


def test_resnet50_forward(execute):
    """3.86 G multiplications an image (He et al. 2015, table 1: 3.8)."""
    counted, by_hand = execute(
        STEP
        + BY_HAND
        + """
model = keras.applications.ResNet50(weights=None)
print(json.dumps([forward(model, (4, 224, 224, 3)) / 4, by_hand(model)]))
"""
    )
    assert by_hand == pytest.approx(2 * 3.86e9, rel=0.03)
    assert counted == pytest.approx(by_hand, rel=0.001)


def test_training_is_three_times_forward_but_for_the_gradient_of_the_input(execute):
    trained, by_hand, first = execute(
        STEP
        + BY_HAND
        + """
layers = keras.layers
model = keras.Sequential([
    layers.Input((32, 32, 3)), layers.Conv2D(16, 7, 2, "same"), layers.BatchNormalization(), layers.ReLU(),
    layers.Conv2D(32, 3, 2, "same"), layers.Conv2D(32, 1), layers.GlobalAveragePooling2D(),
    layers.Dense(10, "softmax")])
print(json.dumps([step(model, (4, 32, 32, 3), (4,)) / 4, by_hand(model), 2 * 7 * 7 * 3 * 16 * 16 * 16]))
"""
    )
    assert trained == pytest.approx(3 * by_hand - first, rel=0.001)


def test_calls_branches_and_loops(execute):
    result = execute(
        STEP
        + """
square = tf.function(lambda x: x @ x)
def nested(x): return square(square(x))
def either(x): return tf.cond(x[0, 0] > 0, lambda: x @ x, lambda: x)
def repeated(x): return tf.while_loop(lambda i, v: i < 5, lambda i, v: (i + 1, v @ v), (0, x), maximum_iterations=5)[1]
def transposed(x): return tf.linalg.matmul(tf.stack([x[:4]] * 3), tf.stack([x[:4]] * 3), transpose_a=True)
def spread(x): return tf.einsum("...ij,jk->...ik", tf.stack([x] * 3), x)
def counted(each, size=10):
    try:
        return count_flops(tf.function(each).get_concrete_function(tf.TensorSpec((size, 10))))
    except ValueError as error:
        return str(error)
print(json.dumps([*map(counted, (nested, either, repeated, transposed, spread)), counted(nested, None)]))
"""
    )
    *flops, unknown = result
    assert flops == [4000, 2000, 10_000, 2 * 3 * 4 * 100, 6000]
    assert "full batch" in unknown


@pytest.mark.parametrize(
    ("layers", "known"),
    [
        ("keras.layers.Input((4,)), keras.layers.Dense(2)", True),
        ("keras.layers.Input((4,)), keras.layers.Rescaling(2)", False),
        ("keras.layers.Input((4,), sparse=True), keras.layers.Dense(2), keras.layers.Dense(2)", False),
    ],
)
def test_what_is_not_counted_is_left_out(drive, layers, known):
    text = f"{HEAD}model = keras.Sequential([{layers}])\nx = tf.sparse.from_dense(x) if model.inputs[0].sparse else x\n"
    done = drive(f"{text}model.predict(x, batch_size=20)")
    assert [each["value"] > 0 for each in done.of("metric", name="flops_per_sample")] == [True] * known
