"""ResNet-50 training on synthetic images: the arithmetic of the GPU, with no input pipeline in the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from workloads import probe, resnet
from workloads.author import Stage
from workloads.protocol import Change, Optimization, Published, Workload
from workloads.resnet import DATA, FP16, FP16_XLA, RESIDENT, SOURCE, WEIGHTS, XLA_OPTIMIZATION

workload = Workload(
    name="resnet50",
    title="ResNet-50 v1.5 training, synthetic 224x224 images",
    model=WEIGHTS,
    data=DATA,
    batch_size=128,
    epochs=1,
    optimizer="SGD, momentum 0.9",
    loss="sparse categorical cross-entropy",
    params={"cpu:batch_size": 8, "jit_compile": False, "fused_batch_norm": False, "sliced_pooling": False},
    tuned={
        "feed": "resident",
        "gpu:precision": "fp16",
        "gpu:jit_compile": True,
        "gpu:batch_size": 512,
        "gpu:fused_batch_norm": True,
        "gpu:sliced_pooling": True,
    },
    changes=(
        Change(
            what="fused_batch_norm",
            before="Keras' own layer",
            after="TensorFlow's operation",
            why="XLA expands the operation itself: mean and variance in one pass over the activations",
        ),
        Change(
            what="sliced_pooling",
            before="max pooling",
            after="the maximum of shifted views",
            why="its gradient is element-wise, where XLA has a scatter for that of max pooling",
        ),
        Change(
            what="jit_compile",
            before="off",
            after="on",
            why="XLA fuses normalisation, activation and additions, so that activations are read once",
        ),
    ),
    optimizations=(
        Optimization(
            name="resident",
            params=RESIDENT,
            why="the batch lies on the device instead of being copied there for every step",
        ),
        Optimization(
            name="fp32",
            params={**RESIDENT, "precision": "fp32"},
            after="opt:resident",
            device="gpu",
            why="full float32 products instead of TF32: what older GPUs and exact arithmetic give",
        ),
        Optimization(
            name="fp16",
            params=FP16,
            after="opt:resident",
            device="gpu",
            why="half-width numbers use the tensor cores; Keras' batch normalisation still works in float32",
        ),
        Optimization(
            name="bf16",
            params={**RESIDENT, "precision": "bf16"},
            after="opt:resident",
            device="gpu",
            why="half-width numbers with float32's range, so that no loss scaling is needed",
        ),
        Optimization(
            name="fused-batch-norm",
            params={**FP16, "fused_batch_norm": True},
            after="opt:fp16",
            device="gpu",
            why="one kernel normalises a half-width tensor, where Keras takes several passes in float32",
        ),
        Optimization(
            name="xla-tf32",
            params={**RESIDENT, "jit_compile": True},
            after="opt:resident",
            why="XLA without half precision, to tell the two apart",
        ),
        XLA_OPTIMIZATION,
        Optimization(
            name="xla-bf16",
            params={
                "feed": "resident",
                "precision": "bf16",
                "jit_compile": True,
                "gpu:batch_size": 512,
                "fused_batch_norm": True,
                "sliced_pooling": True,
            },
            after="tuned",
            device="gpu",
            why="bfloat16 instead of float16, at the tuned variant's batch",
        ),
        Optimization(
            name="batch-64",
            params={**FP16_XLA, "batch_size": 64},
            after="opt:xla",
            device="gpu",
            why="a smaller batch, to show how much of the device it leaves idle",
        ),
        Optimization(
            name="batch-256",
            params={**FP16_XLA, "batch_size": 256},
            after="opt:xla",
            device="gpu",
            why="twice the published batch: each kernel fills more of the device",
        ),
        Optimization(
            name="batch-512",
            params={**FP16_XLA, "batch_size": 512},
            after="opt:batch-256",
            device="gpu",
            why="twice as many again",
        ),
        Optimization(
            name="xla-fused-batch-norm",
            params={**FP16_XLA, "batch_size": 512, "fused_batch_norm": True},
            after="opt:batch-512",
            device="gpu",
            why="XLA expands the operation itself: mean and variance in one pass over the activations",
        ),
    ),
    published=(
        Published(
            source="NVIDIA, TensorFlow 1 ResNet-50 v1.5",
            system="A100 40 GB",
            device="gpu",
            value=909.0,
            unit="samples/s",
            note="TF32 with XLA",
        ),
        Published(
            source="NVIDIA, TensorFlow 1 ResNet-50 v1.5",
            system="A100 40 GB",
            device="gpu",
            value=2375.0,
            unit="samples/s",
            note="mixed precision with XLA",
        ),
        Published(
            source="NVIDIA, TensorFlow 1 ResNet-50 v1.5",
            system="V100",
            device="gpu",
            value=412.0,
            unit="samples/s",
            note="FP32 with XLA",
        ),
        Published(
            source="NVIDIA, TensorFlow 1 ResNet-50 v1.5",
            system="V100",
            device="gpu",
            value=1270.0,
            unit="samples/s",
            note="mixed precision with XLA",
        ),
        Published(
            source="PyTorch ResNet-50",
            system="V100",
            device="gpu",
            value=833.0,
            unit="samples/s",
            note="PyTorch, not TensorFlow: fp16; a cross-framework anchor",
        ),
        Published(
            source="PyTorch ResNet-50",
            system="A100",
            device="gpu",
            value=1582.0,
            unit="samples/s",
            note="PyTorch, not TensorFlow: fp16; a cross-framework anchor",
        ),
        Published(
            source="PyTorch ResNet-50",
            system="H100",
            device="gpu",
            value=2790.0,
            unit="samples/s",
            note="PyTorch, not TensorFlow: fp16; a cross-framework anchor",
        ),
        Published(
            source="PyTorch ResNet-50",
            system="H200",
            device="gpu",
            value=3079.0,
            unit="samples/s",
            note="PyTorch, not TensorFlow: fp16; a cross-framework anchor",
        ),
    ),
    source=SOURCE,
    suite="extra",
)


def model(params: Mapping[str, Any]) -> tf.keras.Model:
    """Return the compiled model."""
    built = resnet.resnet50(
        fused_batch_norm=params["fused_batch_norm"], sliced_pooling=params["sliced_pooling"]
    )
    optimizer = tf.keras.optimizers.SGD(0.05, momentum=0.9)
    built.compile(optimizer=optimizer, loss="sparse_categorical_crossentropy")
    return built


def dataset(params: Mapping[str, Any], data_dir: str) -> Sequence[Stage]:
    """Return the one stage: a random batch in host memory, again and again."""
    del data_dir
    return (("batch", lambda: resnet.synthetic(params["batch_size"], seed=1)),)


def metrics(params: Mapping[str, Any]) -> Mapping[str, tuple[float, str]]:
    """Return the arithmetic of one training step a sample, and the device's measured matrix rates."""
    macs = resnet.macs(resnet.resnet50(fused_batch_norm=False))
    flops = float(resnet.PASSES_TRAINING * resnet.FLOP_PER_MAC * macs)
    return {"flops_per_sample": (flops, "FLOP"), **probe.rates(params["device"])}
