"""ResNet-50 on synthetic images, without an input pipeline: training, inference and serving."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from workloads import resnet
from workloads.loss_scaling import BranchFreeLossScaling
from workloads.protocol import Data, Published, Requests, Workload
from workloads.workload_file import Stage

DATA = Data(name="synthetic-imagenet", shape=(224, 224, 3), classes=1000, train=0, test=0, dtype="float32")
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

inference_model = resnet.inference


def training_model(params: Mapping[str, Any]) -> tf.keras.Model:
    """Return the compiled model for training."""
    built = resnet.resnet50(
        fused_batch_norm=params["fused_batch_norm"], sliced_pooling=params["sliced_pooling"]
    )
    optimizer = tf.keras.optimizers.SGD(0.05, momentum=0.9)
    if params["branch_free_scaling"] and params["precision"] == "fp16":
        optimizer = BranchFreeLossScaling(optimizer)
    built.compile(optimizer=optimizer, loss="sparse_categorical_crossentropy")
    return built


def dataset(params: Mapping[str, Any], data_dir: str) -> Sequence[Stage]:
    """Return a single stage that repeats a random batch in host memory."""
    del data_dir
    return (("batch", lambda: resnet.synthetic(params["batch_size"], seed=1)),)
