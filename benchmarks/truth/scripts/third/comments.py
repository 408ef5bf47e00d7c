"""A GRU reads comments that a generator splits into words and looks up, batch by batch."""

import random

import numpy as np
from keras import Sequential, layers

WORDS_PER_COMMENT = 1500
BATCH_SIZE = 64
MAX_LENGTH = 60

vocabulary = {f"word{i}": i + 2 for i in range(4000)}
names = list(vocabulary)
comments = [" ".join(random.choices(names, k=WORDS_PER_COMMENT)) for _ in range(400)]  # noqa: S311
toxic = [random.randint(0, 1) for _ in comments]  # noqa: S311


def encode(comment):
    ids = [vocabulary.get(word.strip(".,!?").lower(), 1) for word in comment.split()]
    return ids[-MAX_LENGTH:] + [0] * (MAX_LENGTH - len(ids))


def batches():
    while True:
        chosen = np.random.randint(0, len(comments), BATCH_SIZE)
        x = np.array([encode(comments[i]) for i in chosen], dtype="int32")
        y = np.array([toxic[i] for i in chosen], dtype="float32")
        yield x, y[:, None]


model = Sequential()
model.add(layers.Embedding(4002, 48))
model.add(layers.SpatialDropout1D(0.2))
model.add(layers.GRU(64))
model.add(layers.Dense(1, activation="sigmoid"))
model.compile(loss="binary_crossentropy", optimizer="adam", metrics=["accuracy"])
model.fit(batches(), steps_per_epoch=300, epochs=100, verbose=2)
