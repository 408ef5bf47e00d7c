"""Inference of published.py's network with folded normalisation and 8-bit images, scaled on the device.

On a GPU also in fp16, with XLA and constant weights.
"""

import keras
import numpy as np
import tensorflow as tf
from constant_weights import ConstantWeights
from resnet_v15 import folded, resnet50

GPU = bool(tf.config.get_visible_devices("GPU"))
BATCH_SIZE = 256 if GPU else 8
PRECISION = "mixed_float16" if GPU else "float32"
JIT_COMPILE = GPU
CONSTANT_WEIGHTS = GPU

keras.mixed_precision.set_global_policy(PRECISION)

# A quarter of the bytes to copy to a GPU.
images = np.random.default_rng(1).integers(0, 256, (BATCH_SIZE, 224, 224, 3), dtype="uint8")

pixels = keras.Input(images.shape[1:], dtype=images.dtype)
scaled = keras.layers.Rescaling(1 / 127.5, offset=-1)(pixels)
network = keras.Model(pixels, folded(resnet50())(scaled))
model = ConstantWeights(network) if CONSTANT_WEIGHTS else network
model.compile(jit_compile=JIT_COMPILE)
model.predict(images, batch_size=BATCH_SIZE)
