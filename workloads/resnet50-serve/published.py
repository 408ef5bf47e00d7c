# /// tfbench
# title = "ResNet-50 v1.5 as a service, single images at random times"
# source = "Training article, 2020 (inference deployment); scenarios of MLPerf Inference"
# tuned = "tuned.py"
# components = ["constant_weights.py", "resnet_v15.py"]
#
# [requests]
# batch_sizes = [1, 2, 4, 8, 16, 32]
# compiled_batch_sizes = [1, 8, 32, 128]
# bounds_ms = [15.0, 50.0, 100.0, 250.0, 1000.0]  # 15 ms is MLPerf Inference's for ResNet-50 in the Server scenario
#
# [[published]]
# source = "Training article, 2020, citing a cloud vendor"
# system = "3 GPU nodes over 5 CPU clusters"
# device = "gpu"
# value = 8.04
# unit = "requests ratio"
# note = """printed as 804 %; here one GPU over this machine's CPU, for requests a second at the least bound \
#   that both keep to; the article names neither model nor machines"""
#
# [ladder.fp16]
# device = "gpu"
# PRECISION = "mixed_float16"
#
# [ladder.xla]
# device = "gpu"
# PRECISION = "mixed_float16"
# JIT_COMPILE = true
#
# [ladder.folded]
# script = "tuned.py"
# BATCH_SIZE = 1
# CONSTANT_WEIGHTS = false
# ///
"""ResNet-50 v1.5 as a service: single synthetic images, with Keras' predict."""

import keras
import numpy as np
from resnet_v15 import resnet50

BATCH_SIZE = 1
PRECISION = "float32"
JIT_COMPILE = False

keras.mixed_precision.set_global_policy(PRECISION)

images = np.random.default_rng(1).standard_normal((BATCH_SIZE, 224, 224, 3), dtype="float32")

model = resnet50()
model.compile(jit_compile=JIT_COMPILE)
model.predict(images, batch_size=BATCH_SIZE)
