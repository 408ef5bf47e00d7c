"""Inference of published.py's network with folded normalisation; on a GPU in fp16, with XLA and constant weights."""

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

images = np.random.default_rng(1).standard_normal((BATCH_SIZE, 224, 224, 3), dtype="float32")

network = folded(resnet50())
images = images.astype(network.compute_dtype)  # halves the copy to a GPU
model = ConstantWeights(network) if CONSTANT_WEIGHTS else network
model.compile(jit_compile=JIT_COMPILE)
model.predict(images, batch_size=BATCH_SIZE)
