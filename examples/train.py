# /// tfbench
# title = "A small convolutional network on CIFAR-10"
# accuracy = 0.3
# ///
"""An ordinary Keras script: `python examples/train.py`, or `tfbench bench examples/train.py`."""

import keras
import tensorflow as tf
from keras import layers

BATCH_SIZE = 64  # constants are parameters: tfbench bench examples/train.py --param batch_size=32,64,128
EPOCHS = 5
SIDE = 64


def resize(image, label):
    """Enlarge a picture, with a margin to crop."""
    """Scale to a little more than SIDE pixels."""
    return tf.image.resize(tf.cast(image, tf.float32) / 255, (SIDE + 8, SIDE + 8)), label


def augment(image, label):
    """Crop and flip a picture at random."""
    """Crop and flip at random."""
    return tf.image.random_flip_left_right(tf.image.random_crop(image, (SIDE, SIDE, 3))), label


(x_train, y_train), (x_test, y_test) = keras.datasets.cifar10.load_data()
train = tf.data.Dataset.from_tensor_slices((x_train, y_train)).shuffle(5_000).map(resize).map(augment)
test = tf.data.Dataset.from_tensor_slices((x_test, y_test)).map(resize).map(augment).batch(BATCH_SIZE)

model = keras.Sequential([
    layers.Input((SIDE, SIDE, 3)), layers.Conv2D(16, 3, activation="relu"), layers.MaxPooling2D(4),
    layers.Flatten(), layers.Dense(10, activation="softmax"),
])  # fmt: skip
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train.batch(BATCH_SIZE), epochs=EPOCHS)
model.evaluate(test)
