"""JPEG or PNG files decoded and resized, by THREADS threads or one after the other."""

import tempfile
from pathlib import Path

import tensorflow as tf
from networks import convolutional
from pictures import picture
from simulated import SimulatedAccelerator

SIDE = 1024
PNG = False
BATCH_SIZE = 8
THREADS = 0  # 0: one image after the other
PREFETCH = 2
SAMPLE_US = 3000
WIDTH = 0  # filters of a real network; 0 for the simulated accelerator
STEPS = 100_000

folder = Path(tempfile.mkdtemp())
files = [str(folder / f"{number}.img") for number in range(4)]
encode = tf.io.encode_png if PNG else tf.io.encode_jpeg
for number, file in enumerate(files):
    tf.io.write_file(file, encode(picture(SIDE, noise=6, seed=number)))


def read(file: tf.Tensor) -> tf.Tensor:
    """Return a file's bytes."""
    return tf.io.read_file(file)


def decode(data: tf.Tensor) -> tf.Tensor:
    """Return the picture in a file."""
    return tf.io.decode_jpeg(data, channels=3)  # PNG files too


def resize(image: tf.Tensor) -> tuple:
    """Return a small picture with its label."""
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
