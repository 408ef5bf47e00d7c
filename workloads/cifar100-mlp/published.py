# /// tfbench
# title = "CIFAR-100, multilayer perceptron"
# suite = "default"
# source = "Azure blog, 2023"
# accuracy = 0.1
# tuned = "tuned.py"
# components = ["many_steps.py"]
# published = [
#   { system = "NC4as T4 v3, its 4 vCPUs", device = "cpu", value = 1075.0, unit = "s" },
#   { system = "NC4as T4 v3, NVIDIA T4", device = "gpu", value = 343.0, unit = "s" },
#   { system = "NC4as T4 v3, T4 over CPU", device = "gpu", value = 3.1, unit = "ratio" },
# ]
#
# [ladder]
# data-on-device = { script = "tuned.py", STEPS = 1 }
# ///
"""Multilayer perceptron on CIFAR-100, as published on the Azure blog in 2023."""

import keras
from keras import layers

BATCH_SIZE = 32
EPOCHS = 100

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
model.compile(
    optimizer="adam",
    loss="categorical_crossentropy",
    metrics=["accuracy"],
    jit_compile=False,  # published with Keras 2, which uses XLA only on request
)
model.fit(x_train, y_train, batch_size=BATCH_SIZE, epochs=EPOCHS, verbose=2)
model.evaluate(x_test, y_test)
