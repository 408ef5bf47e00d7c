# /// tfbench
# title = "ResNet-50 v1.5 training, synthetic 224x224 images"
# suite = "gpu"
# source = "He et al. 2015; NVIDIA's ResNet-50 v1.5"
# tuned = "tuned.py"
# components = ["data_parallel.py", "gpu_layers.py", "loss_scaling.py", "many_steps.py", "resnet_v15.py"]
#
# [cpu]
# BATCH_SIZE = 8
#
# [[published]]
# source = "NVIDIA, TensorFlow 1 ResNet-50 v1.5"
# system = "A100 40 GB"
# device = "gpu"
# value = 909.0
# unit = "samples/s"
# note = "TF32 with XLA; here without"
#
# [[published]]
# source = "NVIDIA, TensorFlow 1 ResNet-50 v1.5"
# system = "A100 40 GB"
# device = "gpu"
# value = 2375.0
# unit = "samples/s"
# variant = "tuned"
# note = "mixed precision with XLA"
#
# [[published]]
# source = "NVIDIA, TensorFlow 1 ResNet-50 v1.5"
# system = "V100"
# device = "gpu"
# value = 412.0
# unit = "samples/s"
# note = "FP32 with XLA; here without"
#
# [[published]]
# source = "NVIDIA, TensorFlow 1 ResNet-50 v1.5"
# system = "V100"
# device = "gpu"
# value = 1270.0
# unit = "samples/s"
# variant = "tuned"
# note = "mixed precision with XLA"
#
# [[published]]
# source = "PyTorch ResNet-50"
# system = "H100"
# device = "gpu"
# value = 2790.0
# unit = "samples/s"
# variant = "tuned"
# note = "PyTorch, not TensorFlow: fp16; a cross-framework anchor"
#
# [[published]]
# source = "PyTorch ResNet-50"
# system = "H200"
# device = "gpu"
# value = 3079.0
# unit = "samples/s"
# variant = "tuned"
# note = "PyTorch, not TensorFlow: fp16; a cross-framework anchor"
#
# [ladder.fp16]
# device = "gpu"
# script = "tuned.py"
# STEPS = 1
# BATCH_SIZE = 128
# JIT_COMPILE = false
# FUSED_BATCH_NORM = false
# SLICED_POOLING = false
# BRANCH_FREE_SCALING = false
#
# [ladder.bf16]
# device = "gpu"
# script = "tuned.py"
# STEPS = 1
# BATCH_SIZE = 128
# JIT_COMPILE = false
# FUSED_BATCH_NORM = false
# SLICED_POOLING = false
# BRANCH_FREE_SCALING = false
# PRECISION = "mixed_bfloat16"
#
# [ladder.xla-tf32]
# device = "gpu"
# script = "tuned.py"
# STEPS = 1
# BATCH_SIZE = 128
# JIT_COMPILE = true
# FUSED_BATCH_NORM = false
# SLICED_POOLING = false
# BRANCH_FREE_SCALING = false
# PRECISION = "float32"
#
# [ladder.xla]
# device = "gpu"
# script = "tuned.py"
# STEPS = 1
# BATCH_SIZE = 128
# JIT_COMPILE = true
# FUSED_BATCH_NORM = false
# SLICED_POOLING = false
# BRANCH_FREE_SCALING = false
#
# [ladder.batch-512]
# device = "gpu"
# script = "tuned.py"
# STEPS = 1
# BATCH_SIZE = 512
# JIT_COMPILE = true
# FUSED_BATCH_NORM = false
# SLICED_POOLING = false
# BRANCH_FREE_SCALING = false
#
# [ladder.fused-batch-norm]
# device = "gpu"
# script = "tuned.py"
# STEPS = 1
# BATCH_SIZE = 512
# JIT_COMPILE = true
# FUSED_BATCH_NORM = true
# SLICED_POOLING = false
# BRANCH_FREE_SCALING = false
# ///
"""Training of ResNet-50 v1.5 on synthetic images: one batch of noise in host memory, again and again."""

import keras
import numpy as np
import tensorflow as tf
from resnet_v15 import resnet50

BATCH_SIZE = 128
EPOCHS = 1
BATCHES = 1000  # of an epoch

random = np.random.default_rng(1)
images = random.standard_normal((BATCH_SIZE, 224, 224, 3), dtype="float32")
labels = random.integers(0, 1000, BATCH_SIZE, dtype="int32")
train = tf.data.Dataset.from_tensors((images, labels)).repeat(BATCHES)

model = resnet50()
model.compile(
    optimizer=keras.optimizers.SGD(0.05, momentum=0.9),
    loss="sparse_categorical_crossentropy",
    jit_compile=False,
)
model.fit(train, epochs=EPOCHS, verbose=2)
