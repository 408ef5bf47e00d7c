"""The network of published.py with images in the device's memory, which also augments them."""

import keras
import tensorflow as tf
from keras import layers
from many_steps import shuffled, train_many_steps

GPU = bool(tf.config.get_visible_devices("GPU"))
BATCH_SIZE = 512
EPOCHS = 10
SIDE = 24  # of a crop, in pixels
AUGMENT = True
STEPS = 20 if GPU else 1  # training steps per call


class Distortion(layers.Layer):
    """Crop, flip and change brightness and contrast of each image of a batch at random, in training.

    Uses operations on whole batches, which XLA compiles.
    """

    def call(self, images: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Return standardised float32[n, SIDE, SIDE, 3] from uint8[n, height, width, 3]."""
        images = tf.cast(images, tf.float32)
        crops = distorted(images) if training and AUGMENT else cropped(images)
        return tf.image.per_image_standardization(crops)


def cropped(images: tf.Tensor) -> tf.Tensor:
    """Return the centres."""
    return tf.image.resize_with_crop_or_pad(images, SIDE, SIDE)


def distorted(images: tf.Tensor) -> tf.Tensor:
    """Return random crops, flipped, with changed brightness and contrast."""
    count = tf.shape(images)[0]
    _, height, width, channels = images.shape
    top = tf.random.uniform([count, 1], 0, height - SIDE + 1, tf.int32)
    left = tf.random.uniform([count, 1], 0, width - SIDE + 1, tf.int32)
    rows, columns = top + tf.range(SIDE), left + tf.range(SIDE)
    mirrored = tf.random.uniform([count, 1]) < 0.5
    columns = tf.where(mirrored, columns[:, ::-1], columns)
    pixels = tf.reshape(rows[:, :, None] * width + columns[:, None, :], [count, SIDE * SIDE])
    flat = tf.reshape(images, [count, height * width, channels])
    crops = tf.reshape(tf.gather(flat, pixels, batch_dims=1), [count, SIDE, SIDE, channels])
    crops += tf.random.uniform([count, 1, 1, 1], -63, 63)
    mean = tf.reduce_mean(crops, axis=(1, 2), keepdims=True)
    return (crops - mean) * tf.random.uniform([count, 1, 1, 1], 0.2, 1.8) + mean


class LocalResponse(layers.Layer):
    """Local response normalisation over channels, with the tutorial's constants."""

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Normalise."""
        return tf.nn.local_response_normalization(inputs, depth_radius=4, bias=1, alpha=0.001 / 9, beta=0.75)


(x_train, y_train), (x_test, y_test) = keras.datasets.cifar10.load_data()

model = keras.Sequential(
    [
        layers.Input((32, 32, 3), dtype="uint8"),
        Distortion(),
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
    jit_compile=GPU,
)
train_many_steps(model, x_train, y_train, BATCH_SIZE)
calls = max(1, len(x_train) // (STEPS * BATCH_SIZE))
model.fit(shuffled(len(x_train), STEPS * BATCH_SIZE), steps_per_epoch=calls, epochs=EPOCHS, verbose=2)
model.evaluate(x_test, y_test)
