"""JPEG files of a folder, loaded by Keras, resized and augmented one batch after the other."""

import pathlib
import tempfile

import numpy as np
import tensorflow as tf

SIDE = 320
AUGMENT = True

root = pathlib.Path(tempfile.mkdtemp())
for kind in ("daisy", "rose", "tulip"):
    (root / kind).mkdir()
    for i in range(64):
        small = np.random.randint(0, 256, (SIDE // 8, SIDE // 8, 3)).astype(np.uint8)
        tf.io.write_file(f"{root}/{kind}/{i}.jpg", tf.io.encode_jpeg(small.repeat(8, 0).repeat(8, 1)))

train = tf.keras.utils.image_dataset_from_directory(root, image_size=(64, 64), batch_size=16)
if AUGMENT:
    augment = tf.keras.Sequential([tf.keras.layers.RandomFlip(), tf.keras.layers.RandomRotation(0.1)])
    train = train.map(lambda x, y: (augment(x, training=True), y))
else:
    train = train.cache()

model = tf.keras.Sequential(
    [
        tf.keras.Input((64, 64, 3)),
        tf.keras.layers.Rescaling(1 / 255),
        tf.keras.layers.Conv2D(16, 3, strides=2, activation="relu"),
        tf.keras.layers.Conv2D(32, 3, strides=2, activation="relu"),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(3, activation="softmax"),
    ]
)
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(train.repeat(), steps_per_epoch=2000, epochs=50, verbose=2)
