"""ResNet-50 inference on synthetic images: throughput in windows, latency of single requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from workloads import probe, resnet
from workloads.author import Stage
from workloads.protocol import Optimization, Remark, Requests, Workload
from workloads.resnet import (
    DATA,
    FOLDED,
    FP16,
    FP16_OPTIMIZATION,
    FP16_XLA,
    RESIDENT,
    SOURCE,
    WEIGHTS,
    XLA_OPTIMIZATION,
)

# Half precision on GPUs, on which it pays; XLA on any device.
ANY_XLA = {**RESIDENT, "gpu:precision": "fp16", "jit_compile": True}

workload = Workload(
    name="resnet50-infer",
    title="ResNet-50 v1.5 inference, synthetic 224x224 images",
    model=WEIGHTS,
    data=DATA,
    batch_size=32,
    epochs=1,
    task="infer",
    params={"cpu:batch_size": 8, "jit_compile": False, "fused_batch_norm": False, "fold_batch_norm": False},
    tuned={
        "feed": "resident",
        "fold_batch_norm": True,
        "gpu:precision": "fp16",
        "gpu:jit_compile": True,
        "gpu:batch_size": 256,
    },
    changes=(FOLDED,),
    optimizations=(
        Optimization(
            name="resident",
            params=RESIDENT,
            why="one compiled call on a batch that lies on the device, instead of Keras' predict_on_batch",
        ),
        Optimization(
            name="folded",
            params={**RESIDENT, "fold_batch_norm": True},
            after="opt:resident",
            why="normalisation is a factor and a bias of each convolution, so that activations are read less",
        ),
        FP16_OPTIMIZATION,
        Optimization(
            name="fused-batch-norm",
            params={**FP16, "fused_batch_norm": True},
            after="opt:fp16",
            device="gpu",
            why="one kernel normalises a half-width tensor",
        ),
        XLA_OPTIMIZATION,
        Optimization(
            name="xla-folded",
            params={**FP16_XLA, "fold_batch_norm": True},
            after="opt:xla",
            device="gpu",
            why="XLA fuses a bias with its convolution, a normalisation only with what follows",
        ),
        Optimization(
            name="batch-1",
            params={**ANY_XLA, "batch_size": 1},
            after="opt:xla",
            why="one image at a time: the shortest latency",
        ),
        Optimization(
            name="batch-8",
            params={**ANY_XLA, "batch_size": 8},
            after="opt:batch-1",
            why="latency against throughput",
        ),
        Optimization(
            name="batch-64",
            params={**ANY_XLA, "batch_size": 64},
            after="opt:batch-8",
            device="gpu",
            why="latency against throughput",
        ),
        Optimization(
            name="batch-512",
            params={**ANY_XLA, "fold_batch_norm": True, "batch_size": 512},
            after="tuned",
            device="gpu",
            why="a larger batch, to show whether the device is full",
        ),
    ),
    requests=Requests(
        batch_sizes=(1, 2, 4, 8, 16, 32, 64, 128, 256), compiled_batch_sizes=(1, 8, 32, 128, 512)
    ),
    remarks=(
        Remark(
            source="RTX 3070 and Ryzen 5900X article",
            system="RTX 3070, Ryzen 5900X",
            text="asks why a newer GPU can lose on ResNet prediction: look at the small batches, where "
            "starting each operation costs more than computing it",
        ),
    ),
    source=SOURCE,
    suite="extra",
)


def model(params: Mapping[str, Any]) -> tf.keras.Model:
    """Return the model."""
    return resnet.inference(params)


def dataset(params: Mapping[str, Any], data_dir: str) -> Sequence[Stage]:
    """Return the one stage: a random batch in host memory, again and again."""
    del data_dir
    return (("batch", lambda: resnet.synthetic(params["batch_size"], seed=1)),)


def metrics(params: Mapping[str, Any]) -> Mapping[str, tuple[float, str]]:
    """Return the arithmetic of one image, and the device's measured matrix rates."""
    macs = resnet.macs(resnet.resnet50(fused_batch_norm=False))
    return {"flops_per_sample": (float(resnet.FLOP_PER_MAC * macs), "FLOP"), **probe.rates(params["device"])}
