"""Images in memory, cropped, with ROUNDS rounds of flips and colour augmentation."""

import numpy as np
import tensorflow as tf
from parts import SimulatedAccelerator, convolutional

ROUNDS = 4
BATCH_SIZE = 8
THREADS = 0  # 0: one image after the other
PREFETCH = 2
SAMPLE_US = 3000
WIDTH = 0  # filters of a real network; 0 for the simulated accelerator
STEPS = 100_000

images = np.random.default_rng(1).integers(0, 256, (64, 128, 128, 3), np.uint8)


def augment(image: tf.Tensor) -> tuple:
    image = tf.cast(image, tf.float32) / 255.0
    for _ in range(ROUNDS):
        image = tf.image.random_flip_left_right(image)
        image = tf.image.random_saturation(tf.image.random_contrast(image, 0.7, 1.3), 0.7, 1.3)
        image = tf.image.random_hue(image, 0.1)
    return tf.image.random_crop(tf.pad(image, ((4, 4), (4, 4), (0, 0))), (128, 128, 3)), 0


dataset = tf.data.Dataset.from_tensor_slices(images).repeat()
dataset = dataset.map(augment, num_parallel_calls=THREADS) if THREADS else dataset.map(augment)
dataset = dataset.batch(BATCH_SIZE, drop_remainder=True).prefetch(PREFETCH)

model = convolutional(WIDTH) if WIDTH else SimulatedAccelerator(step_us=0, sample_us=SAMPLE_US)
model.compile("adam", "sparse_categorical_crossentropy", jit_compile=False)
model.fit(dataset, steps_per_epoch=STEPS, verbose=2)
