# /// tfbench
# title = "Fashion-MNIST, deep multilayer perceptron"
# suite = "cpu"
# source = "Data-science blog, 2021 (times only in pictures)"
# accuracy = 0.3
# tuned = "tuned.py"
# components = ["many_steps.py"]
#
# [ladder]
# data-on-device = { script = "tuned.py", STEPS = 1 }
# ///
"""Deep multilayer perceptron on Fashion-MNIST, as published in a data-science blog in 2021; its sigmoid is kept."""

import keras
from keras import layers

BATCH_SIZE = 32
EPOCHS = 5

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
    optimizer="adam",
    loss="sparse_categorical_crossentropy",
    metrics=["accuracy"],
    jit_compile=False,  # published with Keras 2, which uses XLA only on request
)
model.fit(x_train, y_train, batch_size=BATCH_SIZE, epochs=EPOCHS, verbose=2)
model.evaluate(x_test, y_test)
