"""The perceptron of published.py, compiled with XLA: many steps per call, on samples in the device's memory."""

import keras
import tensorflow as tf
from keras import layers
from many_steps import shuffled, train_many_steps

GPU = bool(tf.config.get_visible_devices("GPU"))
BATCH_SIZE = 32
EPOCHS = 5
STEPS = 187 if GPU else 75  # training steps per call; 10 or 25 calls are an epoch

(x_train, y_train), (x_test, y_test) = keras.datasets.fashion_mnist.load_data()
x_train, x_test = x_train.astype("float32") / 255, x_test.astype("float32") / 255

model = keras.Sequential(
    [
        layers.Input((28, 28)),
        layers.Flatten(),
        layers.Dense(500, activation="relu"),
        layers.Dense(500, activation="relu"),
        layers.Dense(500, activation="relu"),
        layers.Dense(500, activation="relu"),
        layers.Dense(500, activation="relu"),
        layers.Dense(10, activation="sigmoid"),
    ]
)
model.compile(
    optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"], jit_compile=True
)
train_many_steps(model, x_train, y_train, BATCH_SIZE)
calls = max(1, len(x_train) // (STEPS * BATCH_SIZE))
model.fit(shuffled(len(x_train), STEPS * BATCH_SIZE), steps_per_epoch=calls, epochs=EPOCHS, verbose=2)
model.evaluate(x_test, y_test)
