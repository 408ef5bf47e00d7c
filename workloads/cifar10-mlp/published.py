# /// tfbench
# title = "CIFAR-10, wide multilayer perceptron"
# suite = "cpu"
# source = "Data-science blog, 2021 (times only in pictures)"
# accuracy = 0.3
# tuned = "tuned.py"
# components = ["many_steps.py"]
#
# [ladder]
# data-on-device = { script = "tuned.py", STEPS = 1 }
# ///
"""Wide multilayer perceptron on CIFAR-10, as published in a data-science blog in 2021; its sigmoid is kept."""

import keras
from keras import layers

BATCH_SIZE = 32
EPOCHS = 10

(x_train, y_train), (x_test, y_test) = keras.datasets.cifar10.load_data()
x_train, x_test = x_train.astype("float32") / 255, x_test.astype("float32") / 255

model = keras.Sequential(
    [
        layers.Input((32, 32, 3)),
        layers.Flatten(),
        layers.Dense(3000, activation="relu"),
        layers.Dense(1000, activation="relu"),
        layers.Dense(10, activation="sigmoid"),
    ]
)
model.compile(
    optimizer="sgd",
    loss="sparse_categorical_crossentropy",
    metrics=["accuracy"],
    jit_compile=False,  # published with Keras 2, which uses XLA only on request
)
model.fit(x_train, y_train, batch_size=BATCH_SIZE, epochs=EPOCHS, verbose=2)
model.evaluate(x_test, y_test)
