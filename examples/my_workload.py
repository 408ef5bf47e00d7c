"""A custom workload: `tfbench bench --workload-file examples/my_workload.py`."""

import tensorflow as tf

from workloads.protocol import Data, Workload

# The host parses this file without running it, so use literals only.
workload = Workload(
    name="my-cnn",
    title="A small convolutional network on CIFAR-10",
    data=Data(name="cifar10", shape=(32, 32, 3), classes=10, train=50_000, test=10_000),
    batch_size=64,
    epochs=5,
    params={"filters": 16},  # defaults; change them with --param, e.g. --param filters=64
)


def model(params: dict) -> tf.keras.Model:
    """Return a compiled Keras model. Everything else has a default."""
    net = tf.keras.Sequential([
        tf.keras.layers.Input((32, 32, 3)),
        tf.keras.layers.Conv2D(params["filters"], 3, activation="relu"),
        tf.keras.layers.MaxPooling2D(),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(10, activation="softmax"),
    ])  # fmt: skip
    net.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return net
