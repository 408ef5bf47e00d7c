"""JPEG files decoded and resized, by THREADS threads or one after the other."""

import tempfile
from pathlib import Path

import tensorflow as tf
from parts import SimulatedAccelerator, convolutional, picture

SIDE = 1024
BATCH_SIZE = 8
THREADS = 0  # 0: one image after the other
PREFETCH = 2
SAMPLE_US = 3000
WIDTH = 0  # filters of a real network; 0 for the simulated accelerator
STEPS = 100_000

folder = Path(tempfile.mkdtemp())
files = [str(folder / f"{number}.img") for number in range(4)]

for number, file in enumerate(files):
    tf.io.write_file(file, tf.io.encode_jpeg(picture(SIDE, noise=6, seed=number)))


def read(file: tf.Tensor) -> tf.Tensor:
    return tf.io.read_file(file)


def decode(data: tf.Tensor) -> tf.Tensor:
    return tf.io.decode_jpeg(data, channels=3)


def resize(image: tf.Tensor) -> tuple:
    return tf.image.resize(image, (96, 96)), 0


dataset = tf.data.Dataset.from_tensor_slices(files).repeat()
if THREADS:
    dataset = dataset.map(read).map(decode, num_parallel_calls=THREADS)
    dataset = dataset.map(resize, num_parallel_calls=THREADS)
else:
    dataset = dataset.map(read).map(decode).map(resize)
dataset = dataset.batch(BATCH_SIZE, drop_remainder=True).prefetch(PREFETCH)

model = convolutional(WIDTH) if WIDTH else SimulatedAccelerator(step_us=0, sample_us=SAMPLE_US)
model.compile("adam", "sparse_categorical_crossentropy", jit_compile=False)
model.fit(dataset, steps_per_epoch=STEPS, verbose=2)
