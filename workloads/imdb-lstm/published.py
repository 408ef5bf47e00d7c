# /// tfbench
# title = "Film reviews, bidirectional LSTM"
# source = "Training article, 2020 (Colab); layers of Keras' example “Bidirectional LSTM on IMDB”, 2020"
# accuracy = 0.6
# tuned = "tuned.py"
# components = ["many_steps.py"]
#
# [[published]]
# source = "Training article, 2020"
# system = "Colab, its CPU"
# device = "cpu"
# value = 198.2
# unit = "s"
# note = """text classification; layers and data are not printed: compare the ratio, not the times; \
#   it is over Colab's 2 virtual CPUs, and the less arithmetic a model has, the smaller it is"""
#
# [[published]]
# source = "Training article, 2020"
# system = "Colab, its GPU"
# device = "gpu"
# value = 14.4
# unit = "s"
# note = """text classification; layers and data are not printed: compare the ratio, not the times; \
#   it is over Colab's 2 virtual CPUs, and the less arithmetic a model has, the smaller it is"""
#
# [[published]]
# source = "Training article, 2020"
# system = "Colab, GPU over CPU"
# device = "gpu"
# value = 13.76
# unit = "ratio"
# note = """text classification; layers and data are not printed: compare the ratio, not the times; \
#   it is over Colab's 2 virtual CPUs, and the less arithmetic a model has, the smaller it is"""
#
# [ladder.generic-kernel]
# device = "gpu"
# CUDNN = false
#
# [ladder.generic-xla]
# device = "gpu"
# CUDNN = false
# JIT_COMPILE = true
#
# [ladder.data-on-device]
# script = "tuned.py"
# STEPS = 1
# BATCH_SIZE = 32
# ///
"""Bidirectional LSTM on film reviews: the layers of Keras' example, with the reviews in a tf.data pipeline."""

import keras
import tensorflow as tf
from keras import layers

BATCH_SIZE = 32
EPOCHS = 2
WORDS = 20000  # size of the vocabulary
LENGTH = 200  # words of a review
CUDNN = "auto"
JIT_COMPILE = False  # XLA cannot compile cuDNN's kernels: a GPU uses one or the other

(x_train, y_train), (x_test, y_test) = keras.datasets.imdb.load_data(num_words=WORDS)


def padded(review: tf.RaggedTensor, label: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the last LENGTH words, after zeros."""
    words = review[-LENGTH:]
    return tf.ensure_shape(tf.pad(words, [[LENGTH - tf.size(words), 0]]), [LENGTH]), label[None]


train = tf.data.Dataset.from_tensor_slices((tf.ragged.constant(x_train), y_train)).map(padded).cache()
train = train.shuffle(len(x_train)).batch(BATCH_SIZE, drop_remainder=True).prefetch(tf.data.AUTOTUNE)
test = tf.data.Dataset.from_tensor_slices((tf.ragged.constant(x_test), y_test)).map(padded).batch(1000)

model = keras.Sequential(
    [
        layers.Input((LENGTH,), dtype="int32"),
        layers.Embedding(WORDS, 128),
        layers.Bidirectional(layers.LSTM(64, return_sequences=True, use_cudnn=CUDNN)),
        layers.Bidirectional(layers.LSTM(64, use_cudnn=CUDNN)),
        layers.Dense(1, activation="sigmoid"),
    ]
)
model.compile(optimizer="adam", loss="binary_crossentropy", metrics=["accuracy"], jit_compile=JIT_COMPILE)
model.fit(train, epochs=EPOCHS, verbose=2)
model.evaluate(test)
