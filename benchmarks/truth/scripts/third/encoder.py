"""A transformer encoder; a callback can keep an average of the weights on the side."""

import keras
import numpy as np

AVERAGE_WEIGHTS = True
BLOCKS = 2
WIDTH = 128
LENGTH = 64
BATCH_SIZE = 24
VOCABULARY = 10_000
POLICY = "float32"
SHUFFLE = True

keras.mixed_precision.set_global_policy(POLICY)

tokens = np.random.randint(0, VOCABULARY, (4096, LENGTH))
labels = np.random.randint(0, 4, 4096)


class AverageWeights(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.average = self.model.get_weights()

    def on_train_batch_end(self, batch, logs=None):
        if AVERAGE_WEIGHTS:
            weights = self.model.get_weights()
            self.average = [0.999 * a + 0.001 * w for a, w in zip(self.average, weights, strict=True)]


@keras.saving.register_keras_serializable()
class Positions(keras.layers.Layer):
    def build(self, shape):
        self.table = self.add_weight(shape=(shape[1], shape[2]), initializer="normal")

    def call(self, x):
        return x + self.table


def block(x):
    y = keras.layers.LayerNormalization()(x)
    x += keras.layers.MultiHeadAttention(num_heads=WIDTH // 64, key_dim=64, dropout=0.1)(y, y)
    y = keras.layers.Dense(4 * WIDTH, activation="gelu")(keras.layers.LayerNormalization()(x))
    return x + keras.layers.Dense(WIDTH)(y)


inputs = keras.Input((LENGTH,), dtype="int32")
x = Positions()(keras.layers.Embedding(VOCABULARY, WIDTH)(inputs))
for _ in range(BLOCKS):
    x = block(x)
x = keras.layers.GlobalAveragePooling1D()(x)
model = keras.Model(inputs, keras.layers.Dense(4, activation="softmax", dtype="float32")(x))
model.compile(keras.optimizers.SGD(0.005), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(
    tokens,
    labels,
    batch_size=BATCH_SIZE,
    epochs=60,
    shuffle=SHUFFLE,
    verbose=2,
    callbacks=[AverageWeights(), keras.callbacks.ReduceLROnPlateau(monitor="loss", patience=20)],
)
