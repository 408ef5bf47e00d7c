"""A U-Net that finds cells; a PyDataset with workers draws the pictures and their masks in Python."""

import random

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

SIDE = 64
CELLS = 25
BATCH_SIZE = 8


class Cells(keras.utils.PyDataset):
    def __init__(self, batches, **kwargs):
        super().__init__(**kwargs)
        self.batches = batches

    def __len__(self):
        return self.batches

    def draw(self):
        picture = np.random.rand(SIDE, SIDE, 1).astype("float32")
        mask = np.zeros((SIDE, SIDE, 1), "float32")
        for _ in range(CELLS):
            row, column, radius = random.randrange(SIDE), random.randrange(SIDE), random.randint(6, 14)  # noqa: S311
            for i in range(max(0, row - radius), min(SIDE, row + radius)):
                for j in range(max(0, column - radius), min(SIDE, column + radius)):
                    if (i - row) ** 2 + (j - column) ** 2 < radius**2:
                        mask[i, j, 0] = 1
                        picture[i, j, 0] += 0.5
        return picture, mask

    def __getitem__(self, index):
        drawn = [self.draw() for _ in range(BATCH_SIZE)]
        return np.stack([picture for picture, _ in drawn]), np.stack([mask for _, mask in drawn])


def double_conv(x, filters):
    for _ in range(2):
        x = layers.Conv2D(filters, 3, padding="same", activation="relu")(x)
    return x


inputs = layers.Input((SIDE, SIDE, 1))
skips, x = [], inputs
for filters in (8, 16):
    x = double_conv(x, filters)
    skips.append(x)
    x = layers.MaxPooling2D()(x)
x = double_conv(x, 32)
for filters, skip in ((16, skips[1]), (8, skips[0])):
    x = layers.Conv2DTranspose(filters, 2, strides=2)(x)
    x = double_conv(layers.Concatenate()([x, skip]), filters)
unet = keras.Model(inputs, layers.Conv2D(1, 1, activation="sigmoid")(x))


def dice_loss(y_true, y_pred):
    both = tf.reduce_sum(y_true * y_pred, axis=(1, 2, 3))
    return 1 - (2 * both + 1) / (tf.reduce_sum(y_true + y_pred, axis=(1, 2, 3)) + 1)


unet.compile(optimizer="adam", loss=dice_loss, metrics=[keras.metrics.BinaryIoU([1])])
unet.fit(Cells(400, workers=2, max_queue_size=10), epochs=50, verbose=2)
