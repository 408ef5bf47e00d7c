"""The network of published.py on images that are decoded once and augmented on the device, with XLA on a GPU."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from many_steps import shuffled, train_many_steps
from random_warp import RandomWarp

GPU = bool(tf.config.get_visible_devices("GPU"))
DATA = "data/cats-and-dogs"  # has folders train/cat, train/dog, test/cat, test/dog
BATCH_SIZE = 32
EPOCHS = 25
STEPS_PER_EPOCH = 8000
SIDE = 128  # pixels
GROUPS = ((6, 32), (6, 64), (7, 128), (7, 256), (6, 256))  # convolutions and their filters, then pooling
AUGMENT = True
STEPS = 50 if GPU else 4  # training steps per call


def decoded(part: str) -> tuple[np.ndarray, np.ndarray]:
    """Return all images of a folder, uint8[n, SIDE, SIDE, 3], and their labels."""
    files = keras.utils.image_dataset_from_directory(
        f"{DATA}/{part}", label_mode="binary", image_size=(SIDE, SIDE), interpolation="nearest", shuffle=False
    )
    batches = files.map(lambda images, labels: (tf.cast(images, tf.uint8), labels))
    images, labels = zip(*batches.as_numpy_iterator(), strict=True)
    return np.concatenate(images), np.concatenate(labels)


x_train, y_train = decoded("train")
x_test, y_test = decoded("test")

model = keras.Sequential([layers.Input((SIDE, SIDE, 3), dtype="uint8"), layers.Rescaling(1 / 255)])
if AUGMENT:
    model.add(RandomWarp(shear=0.2, zoom=0.2))
for convolutions, filters in GROUPS:
    for _ in range(convolutions):
        model.add(layers.Conv2D(filters, 3, padding="same", use_bias=False))
        model.add(layers.BatchNormalization(momentum=0.9))  # converges within a short run
        model.add(layers.ReLU())
    model.add(layers.MaxPooling2D())
model.add(layers.GlobalAveragePooling2D())
model.add(layers.Dense(1, activation="sigmoid"))

model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"], jit_compile=GPU)
train_many_steps(model, x_train, y_train, BATCH_SIZE)
calls = max(1, STEPS_PER_EPOCH // STEPS)
model.fit(shuffled(len(x_train), STEPS * BATCH_SIZE), steps_per_epoch=calls, epochs=EPOCHS, verbose=2)
model.evaluate(x_test, y_test)
