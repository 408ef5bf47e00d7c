"""A workload with its own input pipeline; tfbench times each stage.

tfbench bench --workload-file examples/my_pipeline.py
"""

import numpy as np
import tensorflow as tf

from workloads.protocol import Data, Workload

workload = Workload(
    name="my-augmented-cnn",
    title="A small convolutional network on images that are resized and augmented one after another",
    data=Data(name="cifar10", shape=(32, 32, 3), classes=10, train=50_000, test=10_000),
    batch_size=64,
    epochs=5,
    samples_per_epoch=20_000,  # length of dataset()
    params={"side": 128},
    stages=("read", "resize", "augment", "batch"),  # the stages of dataset(), in order
)


def dataset(params: dict, data_dir: str):
    """Return the pipeline as named stages; each is a function from the previous dataset to the next."""
    x = np.load(f"{data_dir}/x_train.npy", mmap_mode="r")[:20_000]
    y = np.load(f"{data_dir}/y_train.npy")[:20_000]
    side = params["side"]

    def resize(image, label):
        return tf.image.resize(tf.cast(image, tf.float32) / 255.0, (side + 16, side + 16)), label

    def augment(image, label):
        image = tf.image.random_flip_left_right(tf.image.random_crop(image, (side, side, 3)))
        return tf.image.random_saturation(tf.image.random_contrast(image, 0.7, 1.3), 0.7, 1.3), label

    return (
        ("read", lambda: tf.data.Dataset.from_tensor_slices((x, y)).shuffle(5_000)),
        ("resize", lambda before: before.map(resize)),
        ("augment", lambda before: before.map(augment)),
        ("batch", lambda before: before.batch(params["batch_size"], drop_remainder=True)),
    )


def model(params: dict) -> tf.keras.Model:
    """Return a compiled Keras model."""
    side = params["side"]
    net = tf.keras.Sequential([
        tf.keras.layers.Input((side, side, 3)),
        tf.keras.layers.Conv2D(32, 3, activation="relu"),
        tf.keras.layers.MaxPooling2D(),
        tf.keras.layers.Conv2D(32, 3, activation="relu"),
        tf.keras.layers.MaxPooling2D(),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(128, activation="relu"),
        tf.keras.layers.Dense(10, activation="softmax"),
    ])  # fmt: skip
    net.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return net
