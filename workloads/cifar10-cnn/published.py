# /// tfbench
# title = "CIFAR-10, convolutional network"
# source = "Hosting blog"
# accuracy = 0.3
# tuned = "tuned.py"
# components = ["many_steps.py"]
#
# [[published]]
# system = "Tesla V100"
# device = "gpu"
# value = 15000.0
# upto = 17000.0
# unit = "samples/s"
# note = "batch 512; the blog does not print the layers: taken to be TensorFlow's tutorial"
#
# [[published]]
# system = "Tesla V100"
# device = "gpu"
# value = 0.45
# unit = "utilisation"
#
# [[published]]
# system = "2x Xeon Silver 4110"
# device = "cpu"
# value = 210.0
# unit = "samples/s"
# note = "16 cores"
#
# [[published]]
# system = "VirtualBox VM on 2x Xeon Silver 4110"
# device = "cpu"
# value = 90.0
# unit = "samples/s"
#
# [ladder]
# no-augment = { AUGMENT = false }
# data-on-device = { script = "tuned.py", STEPS = 1 }
# ///
"""CNN of TensorFlow 1's CIFAR-10 tutorial, whose input pipeline augments each image on the CPU.

A hosting company's blog measured it with a batch of 512; the tutorial's is 128.
"""

import keras
import tensorflow as tf
from keras import layers

BATCH_SIZE = 512
EPOCHS = 10
SIDE = 24  # of a crop, in pixels
AUGMENT = True
THREADS = 16  # as in the tutorial


def distorted(image: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Crop, flip and change brightness and contrast at random."""
    image = tf.image.random_crop(tf.cast(image, tf.float32), (SIDE, SIDE, 3))
    image = tf.image.random_flip_left_right(image)
    image = tf.image.random_brightness(image, max_delta=63)
    image = tf.image.random_contrast(image, lower=0.2, upper=1.8)
    return tf.image.per_image_standardization(image), label


def cropped(image: tf.Tensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Cut out the centre."""
    image = tf.image.resize_with_crop_or_pad(tf.cast(image, tf.float32), SIDE, SIDE)
    return tf.image.per_image_standardization(image), label


class LocalResponse(layers.Layer):
    """Local response normalisation over channels, with the tutorial's constants."""

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Normalise."""
        return tf.nn.local_response_normalization(inputs, depth_radius=4, bias=1, alpha=0.001 / 9, beta=0.75)


(x_train, y_train), (x_test, y_test) = keras.datasets.cifar10.load_data()
train = tf.data.Dataset.from_tensor_slices((x_train, y_train)).shuffle(len(x_train) // 4)
train = train.map(distorted if AUGMENT else cropped, num_parallel_calls=THREADS)
train = train.batch(BATCH_SIZE, drop_remainder=True).prefetch(4)
test = tf.data.Dataset.from_tensor_slices((x_test, y_test)).map(cropped).batch(1000)

model = keras.Sequential(
    [
        layers.Input((SIDE, SIDE, 3)),
        layers.Conv2D(64, 5, padding="same", activation="relu"),
        layers.MaxPooling2D(3, 2, padding="same"),
        LocalResponse(dtype="float32"),
        layers.Conv2D(64, 5, padding="same", activation="relu"),
        LocalResponse(dtype="float32"),
        layers.MaxPooling2D(3, 2, padding="same"),
        layers.Flatten(),
        layers.Dense(384, activation="relu"),
        layers.Dense(192, activation="relu"),
        layers.Dense(10, activation="softmax"),
    ]
)
model.compile(
    optimizer=keras.optimizers.SGD(0.1),
    loss="sparse_categorical_crossentropy",
    metrics=["accuracy"],
    jit_compile=False,  # published with TensorFlow 1, without XLA
)
model.fit(train, epochs=EPOCHS, verbose=2)
model.evaluate(test)
