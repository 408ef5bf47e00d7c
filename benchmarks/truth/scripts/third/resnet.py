"""A small residual network on arrays of pictures, with a report or with validation after each epoch."""

import numpy as np
from keras import Input, Model, layers, optimizers
from keras.callbacks import Callback

SAMPLES = 1280
BATCH_SIZE = 32
FILTERS = 16
SIDE = 32
REPORTED = 640
VALIDATED = 0

pictures = np.random.rand(SAMPLES, SIDE, SIDE, 3).astype("float32")
labels = np.random.randint(0, 10, SAMPLES)


def residual(x, filters, stride):
    shortcut = layers.Conv2D(filters, 1, strides=stride)(x) if stride > 1 else x
    y = layers.Conv2D(filters, 3, strides=stride, padding="same", use_bias=False)(x)
    y = layers.ReLU()(layers.BatchNormalization()(y))
    y = layers.BatchNormalization()(layers.Conv2D(filters, 3, padding="same", use_bias=False)(y))
    return layers.ReLU()(layers.add([shortcut, y]))


def build():
    inputs = Input((SIDE, SIDE, 3))
    x = layers.ReLU()(layers.Conv2D(FILTERS, 3, padding="same")(inputs))
    for filters, stride in ((FILTERS, 1), (FILTERS, 1), (2 * FILTERS, 2), (2 * FILTERS, 1), (4 * FILTERS, 2)):
        x = residual(x, filters, stride)
    x = layers.GlobalAveragePooling2D()(x)
    return Model(inputs, layers.Dense(10, activation="softmax")(x))


class ConfusionMatrix(Callback):
    def on_epoch_end(self, epoch, logs=None):
        if REPORTED:
            chosen = np.random.choice(SAMPLES, REPORTED, replace=False)
            guesses = self.model.predict(pictures[chosen], batch_size=BATCH_SIZE, verbose=0).argmax(axis=1)
            matrix = np.zeros((10, 10), int)
            np.add.at(matrix, (labels[chosen], guesses), 1)
            self.worst = (matrix.diagonal() / np.maximum(1, matrix.sum(axis=1))).argmin()


model = build()
model.compile(
    optimizer=optimizers.SGD(0.01, momentum=0.9, nesterov=True),
    loss="sparse_categorical_crossentropy",
    metrics=["accuracy"],
)
held_back = np.random.rand(VALIDATED, SIDE, SIDE, 3).astype("float32"), np.random.randint(0, 10, VALIDATED)
model.fit(
    pictures,
    labels,
    batch_size=BATCH_SIZE,
    epochs=500,
    validation_data=held_back if VALIDATED else None,
    callbacks=[ConfusionMatrix()],
    verbose=2,
)
