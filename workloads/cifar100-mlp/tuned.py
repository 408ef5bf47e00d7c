"""The perceptron of published.py, compiled with XLA: many steps per call, on samples in the device's memory."""

import keras
import tensorflow as tf
from keras import layers
from many_steps import shuffled, train_many_steps

GPU = bool(tf.config.get_visible_devices("GPU"))
BATCH_SIZE = 32
EPOCHS = 100
STEPS = 195 if GPU else 52  # training steps per call; 8 or 30 calls are an epoch

(x_train, y_train), (x_test, y_test) = keras.datasets.cifar100.load_data()
x_train, x_test = x_train.astype("float32") / 255, x_test.astype("float32") / 255
y_train, y_test = keras.utils.to_categorical(y_train, 100), keras.utils.to_categorical(y_test, 100)

model = keras.Sequential(
    [
        layers.Input((32, 32, 3)),
        layers.Flatten(),
        layers.Dense(512, activation="relu"),
        layers.Dense(256, activation="relu"),
        layers.Dense(100, activation="softmax"),
    ]
)
model.compile(optimizer="adam", loss="categorical_crossentropy", metrics=["accuracy"], jit_compile=True)
train_many_steps(model, x_train, y_train, BATCH_SIZE)
calls = max(1, len(x_train) // (STEPS * BATCH_SIZE))
model.fit(shuffled(len(x_train), STEPS * BATCH_SIZE), steps_per_epoch=calls, epochs=EPOCHS, verbose=2)
model.evaluate(x_test, y_test)
