"""Spectrograms of clips of different lengths, made in the pipeline, padded, not prefetched."""

import numpy as np
import tensorflow as tf

SAMPLES = 8000
CACHE = False

clips = tf.ragged.constant([np.random.randn(n).astype("float32") for n in
                            np.random.randint(SAMPLES // 2, SAMPLES, 200)])  # fmt: skip
words = np.random.randint(0, 6, 200)


def spectrogram(clip, word):
    magnitude = tf.abs(tf.signal.stft(clip, frame_length=256, frame_step=32))
    return tf.nn.avg_pool1d(magnitude[None], 4, 4, "VALID")[0], word


train = tf.data.Dataset.from_tensor_slices((clips, words)).map(spectrogram)
train = train.padded_batch(20, padded_shapes=([SAMPLES // 128, 129], []))
train = train.cache() if CACHE else train

model = tf.keras.Sequential(
    [
        tf.keras.Input((SAMPLES // 128, 129)),
        tf.keras.layers.Conv1D(64, 5, activation="relu"),
        tf.keras.layers.GRU(48),
        tf.keras.layers.Dense(6, activation="softmax"),
    ]
)
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
model.fit(train.repeat(), steps_per_epoch=2000, epochs=100, verbose=2)
