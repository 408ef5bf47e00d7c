# /// tfbench
# title = "ResNet-50 v1.5 inference, synthetic 224x224 images"
# source = "He et al. 2015; NVIDIA's ResNet-50 v1.5"
# tuned = "tuned.py"
# components = ["constant_weights.py", "resnet_v15.py"]
#
# [cpu]
# BATCH_SIZE = 8
#
# [requests]
# batch_sizes = [1, 2, 4, 8, 16, 32, 64, 128, 256]
# compiled_batch_sizes = [1, 8, 32, 128, 512]
#
# [ladder]
# fp16 = { device = "gpu", PRECISION = "mixed_float16" }
# xla = { device = "gpu", PRECISION = "mixed_float16", JIT_COMPILE = true }
# folded = { script = "tuned.py", BATCH_SIZE = 32, CONSTANT_WEIGHTS = false }
# ///
"""Inference of ResNet-50 v1.5 on synthetic images, with Keras' predict."""

import keras
import numpy as np
from resnet_v15 import resnet50

BATCH_SIZE = 32
PRECISION = "float32"
JIT_COMPILE = False

keras.mixed_precision.set_global_policy(PRECISION)

images = np.random.default_rng(1).standard_normal((BATCH_SIZE, 224, 224, 3), dtype="float32")

model = resnet50()
model.compile(jit_compile=JIT_COMPILE)
model.predict(images, batch_size=BATCH_SIZE)
