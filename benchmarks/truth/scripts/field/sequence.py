"""Pictures that a PyDataset augments in Python, with four threads."""

import keras
import numpy as np
from keras import layers

BATCH_SIZE = 32
AUGMENT = True

rng = np.random.default_rng(0)
pictures, labels = rng.integers(0, 256, (512, 32, 32, 3), "uint8"), rng.integers(0, 10, 512)


class Pictures(keras.utils.PyDataset):
    def __len__(self):
        return 2000

    def __getitem__(self, index):
        chosen = np.random.randint(0, len(pictures), BATCH_SIZE)
        batch = pictures[chosen].astype("float32") / 255.0
        if AUGMENT:
            for image in batch:
                brightness = np.random.uniform(0.8, 1.2)
                for row in image:
                    for pixel in row:
                        pixel[:] = [min(value * brightness, 1.0) for value in pixel]
        return batch, labels[chosen]


model = keras.Sequential(
    [
        layers.Input((32, 32, 3)),
        layers.Conv2D(32, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(64, 3, activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(10, activation="softmax"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy")
model.fit(Pictures(workers=4), epochs=20, verbose=2)
