"""A variational autoencoder with its own training step."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

RUN_EAGERLY = True
LATENT = 8

digits = np.random.rand(4096, 28, 28, 1).astype("float32")


class Sampling(layers.Layer):
    def call(self, inputs):
        mean, log_var = inputs
        return mean + ops.exp(0.5 * log_var) * tf.random.normal(tf.shape(mean))


encoder_inputs = keras.Input((28, 28, 1))
x = layers.Conv2D(16, 3, strides=2, padding="same", activation="relu")(encoder_inputs)
x = layers.Conv2D(32, 3, strides=2, padding="same", activation="relu")(x)
x = layers.Dense(32, activation="relu")(layers.Flatten()(x))
z_mean, z_log_var = layers.Dense(LATENT)(x), layers.Dense(LATENT)(x)
encoder = keras.Model(encoder_inputs, [z_mean, z_log_var, Sampling()([z_mean, z_log_var])])

decoder = keras.Sequential(
    [
        keras.Input((LATENT,)),
        layers.Dense(7 * 7 * 32, activation="relu"),
        layers.Reshape((7, 7, 32)),
        layers.Conv2DTranspose(16, 3, strides=2, padding="same", activation="relu"),
        layers.Conv2DTranspose(1, 3, strides=2, padding="same", activation="sigmoid"),
    ]
)


class VAE(keras.Model):
    def __init__(self, encoder, decoder, **kwargs):
        super().__init__(**kwargs)
        self.encoder, self.decoder = encoder, decoder
        self.trackers = {name: keras.metrics.Mean(name=name) for name in ("loss", "reconstruction", "kl")}

    @property
    def metrics(self):
        return list(self.trackers.values())

    def train_step(self, data):
        with tf.GradientTape() as tape:
            mean, log_var, z = self.encoder(data, training=True)
            missed = keras.losses.binary_crossentropy(data, self.decoder(z, training=True))
            reconstruction = ops.mean(ops.sum(missed, axis=(1, 2)))
            kl = ops.mean(ops.sum(-0.5 * (1 + log_var - ops.square(mean) - ops.exp(log_var)), axis=1))
            loss = reconstruction + kl
        gradients = tape.gradient(loss, self.trainable_weights)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_weights, strict=True))
        for name, value in (("loss", loss), ("reconstruction", reconstruction), ("kl", kl)):
            self.trackers[name].update_state(value)
        return {m.name: m.result() for m in self.metrics}


vae = VAE(encoder, decoder)
vae.compile(optimizer=keras.optimizers.Adam(), run_eagerly=RUN_EAGERLY)
vae.fit(digits, epochs=100, batch_size=32, verbose=2)
