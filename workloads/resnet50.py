"""ResNet-50 v1.5 on synthetic images, without an input pipeline: training, inference and serving.

v1.5 has the stride in the 3x3 convolution of a block, as in NVIDIA's and torchvision's models;
keras.applications has v1, with the stride in the first 1x1 convolution and 6 % less arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from workloads.components.loss_scaling import BranchFreeLossScaling
from workloads.protocol import Data, Published, Requests, Stage, Workload

IMAGE = (224, 224, 3)
CLASSES = 1000
DATA = Data(name="synthetic-imagenet", shape=IMAGE, classes=CLASSES, train=0, test=0, dtype="float32")
SOURCE = "He et al. 2015; NVIDIA's ResNet-50 v1.5"
# Half precision is faster on GPUs only.
RESIDENT = {"feed": "resident"}
FP16 = {"gpu:feed": "resident", "gpu:precision": "fp16"}
BF16 = {"gpu:feed": "resident", "gpu:precision": "bf16"}
FP16_XLA = {**FP16, "gpu:jit_compile": True}
XLA = {**RESIDENT, "gpu:precision": "fp16", "jit_compile": True}
# Tuned training on a GPU, in addition to half precision and XLA: XLA expands TensorFlow's fused batch
# normalisation, which reads the activations once; the gradient of sliced pooling is element-wise instead of a
# scatter; and without a branch the host does not wait for the check of finite gradients.
FUSED = {
    "gpu:steps_per_execution": 10,
    "gpu:fused_batch_norm": True,
    "gpu:sliced_pooling": True,
    "gpu:branch_free_scaling": True,
}
# Published training results on GPUs.
NVIDIA: dict[str, Any] = {
    "source": "NVIDIA, TensorFlow 1 ResNet-50 v1.5",
    "device": "gpu",
    "unit": "samples/s",
}
PYTORCH: dict[str, Any] = {
    "source": "PyTorch ResNet-50",
    "device": "gpu",
    "unit": "samples/s",
    "variant": "opt:fp16",
    "note": "PyTorch, not TensorFlow: fp16; a cross-framework anchor",
}
SHARED: dict[str, Any] = {
    "data": DATA,
    "model": "ResNet-50 v1.5, 25.6 million weights",
    "epochs": 1,
    "suite": "extra",
}
INFERENCE = {
    "jit_compile": False,
    "fused_batch_norm": False,
    "fold_batch_norm": False,
    "constant_weights": False,
    "half_images": False,
}
# Normalisation folded into the convolutions; constant weights, which are not converted for every batch.
FOLDED_XLA = {**FP16_XLA, "gpu:fold_batch_norm": True}
CONSTANT = {**FOLDED_XLA, "gpu:constant_weights": True}

training = Workload(
    **SHARED,
    name="resnet50",
    title="ResNet-50 v1.5 training, synthetic 224x224 images",
    batch_size=128,
    optimizer="SGD, momentum 0.9",
    loss="sparse categorical cross-entropy",
    params={
        "cpu:batch_size": 8,
        "jit_compile": False,
        "fused_batch_norm": False,
        "sliced_pooling": False,
        "branch_free_scaling": False,
    },
    tuned={**RESIDENT, **FP16_XLA, **FUSED, "gpu:batch_size": 512},
    optimizations={
        "resident": RESIDENT,
        "fp32": {"gpu:feed": "resident", "gpu:precision": "fp32"},
        "fp16": FP16,
        "bf16": BF16,
        "fused-batch-norm": {**FP16, "gpu:fused_batch_norm": True},
        "xla-tf32": {**RESIDENT, "jit_compile": True},
        "xla": FP16_XLA,
        "xla-bf16": {**BF16, "gpu:jit_compile": True, **FUSED, "gpu:batch_size": 512},
        "batch-64": {**FP16_XLA, "gpu:batch_size": 64},
        "batch-256": {**FP16_XLA, "gpu:batch_size": 256},
        "batch-512": {**FP16_XLA, "gpu:batch_size": 512},
        "batch-1024": {**FP16_XLA, **FUSED, "gpu:batch_size": 1024},
        "xla-fused-batch-norm": {**FP16_XLA, "gpu:batch_size": 512, "gpu:fused_batch_norm": True},
    },
    published=(
        Published(**NVIDIA, system="A100 40 GB", value=909.0, variant="opt:xla-tf32", note="TF32 with XLA"),
        Published(
            **NVIDIA, system="A100 40 GB", value=2375.0, variant="opt:xla", note="mixed precision with XLA"
        ),
        Published(**NVIDIA, system="V100", value=412.0, variant="opt:xla-tf32", note="FP32 with XLA"),
        Published(**NVIDIA, system="V100", value=1270.0, variant="opt:xla", note="mixed precision with XLA"),
        Published(**PYTORCH, system="V100", value=833.0),
        Published(**PYTORCH, system="A100", value=1582.0),
        Published(**PYTORCH, system="H100", value=2790.0),
        Published(**PYTORCH, system="H200", value=3079.0),
    ),
    source=SOURCE,
    builder="training_model",
)

inference = Workload(
    **SHARED,
    name="resnet50-infer",
    title="ResNet-50 v1.5 inference, synthetic 224x224 images",
    batch_size=32,
    task="infer",
    params={**INFERENCE, "cpu:batch_size": 8},
    tuned={**RESIDENT, "fold_batch_norm": True, **CONSTANT, "gpu:half_images": True, "gpu:batch_size": 256},
    optimizations={
        "resident": RESIDENT,
        "folded": {**RESIDENT, "fold_batch_norm": True},
        "fp16": FP16,
        "fused-batch-norm": {**FP16, "gpu:fused_batch_norm": True},
        "xla": FP16_XLA,
        "xla-folded": FOLDED_XLA,
        "batch-1": {**XLA, "batch_size": 1},
        "batch-8": {**XLA, "batch_size": 8},
        "batch-64": {**FP16_XLA, "gpu:batch_size": 64},
        "constant-weights": {**CONSTANT, "gpu:batch_size": 256},
        "batch-512": {**CONSTANT, "gpu:half_images": True, "gpu:batch_size": 512},
    },
    requests=Requests(
        batch_sizes=(1, 2, 4, 8, 16, 32, 64, 128, 256), compiled_batch_sizes=(1, 8, 32, 128, 512)
    ),
    source=SOURCE,
    builder="inference_model",
)

service = Workload(
    **SHARED,
    name="resnet50-serve",
    title="ResNet-50 v1.5 as a service, single images at random instants",
    batch_size=1,
    task="infer",
    params=INFERENCE,
    tuned={**RESIDENT, "fold_batch_norm": True, **CONSTANT, "cpu:batch_size": 8, "gpu:batch_size": 64},
    # 15 ms is MLPerf Inference's bound for ResNet-50 in the Server scenario.
    requests=Requests(
        batch_sizes=(1, 2, 4, 8, 16, 32),
        compiled_batch_sizes=(1, 4, 16, 64),
        bounds_ms=(15.0, 50.0, 100.0, 250.0, 1000.0),
    ),
    published=(
        Published(
            source="Training article, 2020, citing a cloud vendor",
            system="3 GPU nodes over 5 CPU clusters",
            device="gpu",
            value=8.04,
            unit="requests ratio",
            note="printed as 804 %; here one GPU over this machine's CPU, for requests "
            "a second at the least bound that both keep to; the article names neither model nor machines",
        ),
    ),
    source="Training article, 2020 (inference deployment); scenarios of MLPerf Inference",
    builder="inference_model",
)

workloads = (training, inference, service)
# (filters, blocks, stride of the first block) of the four groups; He et al. 2015, table 1.
GROUPS = ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2))

MOMENTUM = 0.9
EPSILON = 1e-5


def training_model(params: Mapping[str, Any]) -> tf.keras.Model:
    """Return the compiled model for training."""
    built = resnet50(fused_batch_norm=params["fused_batch_norm"], sliced_pooling=params["sliced_pooling"])
    optimizer = tf.keras.optimizers.SGD(0.05, momentum=0.9)
    if params["branch_free_scaling"] and params["precision"] == "fp16":
        optimizer = BranchFreeLossScaling(optimizer)
    built.compile(optimizer=optimizer, loss="sparse_categorical_crossentropy")
    return built


class FusedBatchNormalization(tf.keras.layers.Layer):
    """Batch normalisation with TensorFlow's fused kernel.

    Keras 3's layer computes mean and variance in separate float32 operations, each of which reads the
    activations again. Formula and variables are the same.
    """

    def build(self, shape: Any) -> None:
        """Create the four float32 vectors without autocast, because the kernel does not accept float16."""
        vector = partial(self.add_weight, shape=(shape[-1],), dtype="float32", autocast=False)
        self.gamma = vector(name="gamma", initializer="ones")
        self.beta = vector(name="beta", initializer="zeros")
        self.moving_mean = vector(name="moving_mean", initializer="zeros", trainable=False)
        self.moving_variance = vector(name="moving_variance", initializer="ones", trainable=False)
        super().build(shape)

    def call(self, inputs: Any, training: bool = False) -> Any:
        """Normalise over all but the last axis; in training also update the moving averages."""
        outputs = tf.raw_ops.FusedBatchNormV3(
            x=inputs,
            scale=tf.convert_to_tensor(self.gamma),
            offset=tf.convert_to_tensor(self.beta),
            mean=tf.convert_to_tensor(self.moving_mean),
            variance=tf.convert_to_tensor(self.moving_variance),
            epsilon=EPSILON,
            exponential_avg_factor=1.0 - MOMENTUM if training else 1.0,
            is_training=bool(training),
        )
        if training:
            self.moving_mean.assign(outputs.batch_mean)
            self.moving_variance.assign(outputs.batch_variance)
        return outputs.y


class SlicedMaxPooling(tf.keras.layers.Layer):
    """Maximum over 3x3 windows, stride 2, padding "same", as the maximum of shifted views.

    XLA compiles the gradient of max pooling to a scatter, which is slow on GPUs; the gradients of maximum and
    slice are element-wise and fused with their neighbours.
    """

    def call(self, inputs: Any) -> Any:
        """Pool the rows, then the columns."""
        for axis in (1, 2):
            inputs = _largest_of_three(inputs, axis)
        return inputs


def _largest_of_three(inputs: Any, axis: int) -> Any:
    size = inputs.shape[axis]
    pooled = (size + 1) // 2
    missing = 2 * pooled + 1 - size
    padding = [[0, 0]] * 4
    padding[axis] = [missing // 2, missing - missing // 2]
    padded = tf.pad(inputs, padding, constant_values=inputs.dtype.min)
    before = (slice(None),) * axis
    views = [padded[(*before, slice(first, first + 2 * pooled - 1, 2))] for first in range(3)]
    return tf.maximum(tf.maximum(views[0], views[1]), views[2])


# Makes the normalisation after each convolution; None for convolutions with a bias instead.
_Normalization = Callable[[], tf.keras.layers.Layer] | None


def resnet50(*, fused_batch_norm: bool, sliced_pooling: bool = False) -> tf.keras.Model:
    """Return ResNet-50 v1.5, float32 images [n, 224, 224, 3] -> float32 probabilities [n, 1000]."""
    plain = partial(tf.keras.layers.BatchNormalization, momentum=MOMENTUM, epsilon=EPSILON)
    norm = FusedBatchNormalization if fused_batch_norm else plain
    return _network(norm, SlicedMaxPooling() if sliced_pooling else None)


def inference_model(params: Mapping[str, Any]) -> tf.keras.Model:
    """Return the network for inference; params: fused_batch_norm, fold_batch_norm."""
    network = resnet50(fused_batch_norm=params["fused_batch_norm"])
    return folded(network) if params["fold_batch_norm"] else network


def folded(network: tf.keras.Model) -> tf.keras.Model:
    """Return an equivalent network with the normalisation folded into each convolution's weights and bias.

    With y = gamma (x - mean) / sqrt(variance + epsilon) + beta, as in Jacob et al. 2018, section 3.2.
    """
    plain = _network(None, None)
    convolutions = [layer for layer in network.layers if isinstance(layer, tf.keras.layers.Conv2D)]
    norms = [layer for layer in network.layers if hasattr(layer, "moving_variance")]
    targets = [layer for layer in plain.layers if isinstance(layer, tf.keras.layers.Conv2D)]
    for source, norm, target in zip(convolutions, norms, targets, strict=True):
        gamma, beta, mean, variance = (
            np.asarray(weight) for weight in (norm.gamma, norm.beta, norm.moving_mean, norm.moving_variance)
        )
        factor = gamma / np.sqrt(variance + EPSILON)
        target.set_weights([source.get_weights()[0] * factor, beta - mean * factor])
    plain.get_layer(index=-2).set_weights(network.get_layer(index=-2).get_weights())
    return plain


def _network(norm: _Normalization, pooling: tf.keras.layers.Layer | None) -> tf.keras.Model:
    layers = tf.keras.layers
    inputs = layers.Input(IMAGE)
    x = layers.ReLU()(_convolved(layers.ZeroPadding2D(3)(inputs), 64, 7, 2, norm))
    x = (pooling or layers.MaxPooling2D(3, 2, padding="same"))(x)
    for filters, blocks, stride in GROUPS:
        for block in range(blocks):
            x = _bottleneck(x, filters, stride if block == 0 else 1, project=block == 0, norm=norm)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dense(CLASSES)(x)
    outputs = layers.Activation("softmax", dtype="float32")(x)
    return tf.keras.Model(inputs, outputs, name="resnet50")


def _convolved(x: Any, filters: int, size: int, stride: int, norm: _Normalization) -> Any:
    padding = "same" if size == 3 else "valid"
    x = tf.keras.layers.Conv2D(filters, size, stride, padding=padding, use_bias=norm is None)(x)
    return x if norm is None else norm()(x)


def _bottleneck(x: Any, filters: int, stride: int, *, project: bool, norm: _Normalization) -> Any:
    layers = tf.keras.layers
    shortcut = _convolved(x, 4 * filters, 1, stride, norm) if project else x
    y = layers.ReLU()(_convolved(x, filters, 1, 1, norm))
    y = layers.ReLU()(_convolved(y, filters, 3, stride, norm))
    y = _convolved(y, 4 * filters, 1, 1, norm)
    return layers.ReLU()(layers.Add()([y, shortcut]))


def dataset(params: Mapping[str, Any], data_dir: str) -> Sequence[Stage]:
    """Return a single stage that repeats a random batch in host memory."""
    del data_dir
    return (("batch", lambda: synthetic(params["batch_size"], seed=1)),)


def synthetic(batch: int, seed: int) -> tf.data.Dataset:
    """Return one batch of random images and labels, repeated 1,000 times per epoch."""
    random = np.random.default_rng(seed)
    images = random.standard_normal((batch, *IMAGE), dtype=np.float32)
    labels = random.integers(0, CLASSES, batch, dtype=np.int32)
    with tf.device("CPU:0"):
        return tf.data.Dataset.from_tensors((images, labels)).repeat(1000)
