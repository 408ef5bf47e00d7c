"""Training of published.py's network in fp16 with XLA and larger batches: many steps per call, without copies.

XLA expands TensorFlow's fused batch normalisation, which reads the activations once; the gradient of sliced
pooling is element-wise instead of a scatter; and without a branch in the loss scaling the host does not wait for
the check of finite gradients. Half precision and XLA are faster on GPUs only.

One call of the compiled step trains STEPS * BATCH_SIZE samples on each GPU; all are the length of a batch of indices.
"""

import os

import keras
import numpy as np
import tensorflow as tf
from data_parallel import DataParallel
from gpu_layers import FusedBatchNormalization, SlicedMaxPooling
from loss_scaling import BranchFreeLossScaling
from many_steps import shuffled, train_many_steps
from resnet_v15 import batch_normalization, resnet50

# On an H100, the search for the fastest form of each fusion takes a quarter of the first step and gains nothing.
XLA_FLAGS = "--xla_gpu_experimental_enable_fusion_autotuner=false"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {XLA_FLAGS}".strip()  # read when XLA starts

GPUS = len(tf.config.get_visible_devices("GPU"))
BATCH_SIZE = 512 if GPUS else 8  # of each GPU
EPOCHS = 1
BATCHES = 1000  # of an epoch
STEPS = 10 if GPUS else 1  # training steps per call
PRECISION = "mixed_float16" if GPUS else "float32"
JIT_COMPILE = GPUS > 0
FUSED_BATCH_NORM = GPUS > 0
SLICED_POOLING = GPUS > 0
BRANCH_FREE_SCALING = GPUS > 0

keras.mixed_precision.set_global_policy(PRECISION)

random = np.random.default_rng(1)
images = random.standard_normal((BATCH_SIZE, 224, 224, 3), dtype="float32")
labels = random.integers(0, 1000, BATCH_SIZE, dtype="int32")


def network() -> keras.Model:
    """Return a network with the layers chosen above."""
    normalization = FusedBatchNormalization if FUSED_BATCH_NORM else batch_normalization
    return resnet50(normalization, SlicedMaxPooling() if SLICED_POOLING else None)


optimizer = keras.optimizers.SGD(0.05, momentum=0.9)
if BRANCH_FREE_SCALING and PRECISION == "mixed_float16":
    optimizer = BranchFreeLossScaling(optimizer)
if GPUS > 1:
    devices = [f"GPU:{number}" for number in range(GPUS)]
    model = DataParallel(network, images, labels, BATCH_SIZE, devices)
else:
    model = network()
model.compile(optimizer=optimizer, loss="sparse_categorical_crossentropy", jit_compile=JIT_COMPILE)
if GPUS <= 1:
    train_many_steps(model, images, labels, BATCH_SIZE)
indices = shuffled(BATCH_SIZE, STEPS * BATCH_SIZE * max(1, GPUS))
model.fit(indices, steps_per_epoch=max(1, BATCHES // STEPS), epochs=EPOCHS, verbose=2)
