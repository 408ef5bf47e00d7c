"""The network of published.py: many steps per call, on padded reviews in the device's memory; XLA on a GPU."""

import keras
import tensorflow as tf
from keras import layers
from many_steps import shuffled, train_many_steps

GPU = bool(tf.config.get_visible_devices("GPU"))
BATCH_SIZE = 32
EPOCHS = 10
STEPS = 195 if GPU else 52  # training steps per call; 4 or 15 calls are an epoch
WORDS = 10000  # size of the vocabulary
LENGTH = 250  # words of a review

(x_train, y_train), (x_test, y_test) = keras.datasets.imdb.load_data(num_words=WORDS)
x_train, x_test = (keras.utils.pad_sequences(reviews, maxlen=LENGTH) for reviews in (x_train, x_test))
y_train, y_test = y_train[:, None].astype("float32"), y_test[:, None].astype("float32")

model = keras.Sequential(
    [
        layers.Input((LENGTH,), dtype="int32"),
        layers.Embedding(WORDS, 16),
        layers.Dropout(0.2),
        layers.GlobalAveragePooling1D(),
        layers.Dropout(0.2),
        layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"], jit_compile=GPU)
train_many_steps(model, x_train, y_train, BATCH_SIZE)
calls = max(1, len(x_train) // (STEPS * BATCH_SIZE))
model.fit(shuffled(len(x_train), STEPS * BATCH_SIZE), steps_per_epoch=calls, epochs=EPOCHS, verbose=2)
model.evaluate(x_test, y_test)
