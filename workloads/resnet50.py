"""ResNet-50 on synthetic images: training, inference, and as a service; no input pipeline in the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from workloads import probe, resnet
from workloads.author import Stage
from workloads.loss_scaling import BranchFreeLossScaling
from workloads.protocol import Change, Data, Optimization, Published, Remark, Requests, Workload

DATA = Data(name="synthetic-imagenet", shape=(224, 224, 3), classes=1000, train=0, test=0, dtype="float32")
WEIGHTS = "ResNet-50 v1.5, 25.6 million weights"
SOURCE = "He et al. 2015; NVIDIA's ResNet-50 v1.5"
RESIDENT = {"feed": "resident"}
FP16 = {"feed": "resident", "precision": "fp16"}
FP16_XLA = {"feed": "resident", "precision": "fp16", "jit_compile": True}
# Half precision on GPUs, on which it pays; XLA on any device.
ANY_XLA = {**RESIDENT, "gpu:precision": "fp16", "jit_compile": True}
FP16_OPTIMIZATION = Optimization(
    name="fp16",
    params=FP16,
    after="opt:resident",
    device="gpu",
    why="half-width numbers use the tensor cores",
)
XLA_OPTIMIZATION = Optimization(
    name="xla",
    params=FP16_XLA,
    after="opt:fp16",
    device="gpu",
    why="XLA fuses normalisation, activation and additions, so that activations are read once",
)
FOLDED = Change(
    what="fold_batch_norm",
    before="a layer of its own",
    after="in the convolutions",
    why="for prediction it is a factor and a bias of each convolution, so that activations are read less",
)
WHY_CONSTANT = "weights are constants of the program, in half width: they are not converted for every batch"
CONSTANT_WEIGHTS = Change(what="constant_weights", before="off", after="on", why=WHY_CONSTANT)

training = Workload(
    name="resnet50",
    title="ResNet-50 v1.5 training, synthetic 224x224 images",
    model=WEIGHTS,
    data=DATA,
    batch_size=128,
    epochs=1,
    optimizer="SGD, momentum 0.9",
    loss="sparse categorical cross-entropy",
    params={
        "cpu:batch_size": 8,
        "jit_compile": False,
        "fused_batch_norm": False,
        "sliced_pooling": False,
        "branch_free_scaling": False,
    },
    tuned={
        "feed": "resident",
        "gpu:precision": "fp16",
        "gpu:jit_compile": True,
        "gpu:batch_size": 512,
        "gpu:steps_per_execution": 10,
        "gpu:fused_batch_norm": True,
        "gpu:sliced_pooling": True,
        "gpu:branch_free_scaling": True,
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
            what="branch_free_scaling",
            before="Keras' loss scaling",
            after="the same without a branch",
            why="the host need not wait in each step for the device to say whether all gradients are finite",
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
            why="the batch stays on the device instead of being copied for every step",
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
                "steps_per_execution": 10,
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
            why="twice as large again",
        ),
        Optimization(
            name="batch-1024",
            params={
                **FP16_XLA,
                "batch_size": 1024,
                "steps_per_execution": 10,
                "fused_batch_norm": True,
                "sliced_pooling": True,
                "branch_free_scaling": True,
            },
            after="tuned",
            device="gpu",
            why="twice the tuned variant's batch, for GPUs with memory for it",
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
    builder="training_model",
)

inference = Workload(
    name="resnet50-infer",
    title="ResNet-50 v1.5 inference, synthetic 224x224 images",
    model=WEIGHTS,
    data=DATA,
    batch_size=32,
    epochs=1,
    task="infer",
    params={
        "cpu:batch_size": 8,
        "jit_compile": False,
        "fused_batch_norm": False,
        "fold_batch_norm": False,
        "constant_weights": False,
        "half_images": False,
    },
    tuned={
        "feed": "resident",
        "fold_batch_norm": True,
        "gpu:precision": "fp16",
        "gpu:jit_compile": True,
        "gpu:batch_size": 256,
        "gpu:constant_weights": True,
        "gpu:half_images": True,
    },
    changes=(
        FOLDED,
        CONSTANT_WEIGHTS,
        Change(
            what="half_images",
            before="off",
            after="on",
            why="the batch on the device is in half precision, as a pipeline can deliver it",
        ),
    ),
    optimizations=(
        Optimization(
            name="resident",
            params=RESIDENT,
            why="one compiled call on a batch on the device, instead of Keras' predict_on_batch",
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
            name="constant-weights",
            params={**FP16_XLA, "fold_batch_norm": True, "constant_weights": True, "batch_size": 256},
            after="opt:xla-folded",
            device="gpu",
            why=WHY_CONSTANT,
        ),
        Optimization(
            name="batch-512",
            params={
                **FP16_XLA,
                "fold_batch_norm": True,
                "constant_weights": True,
                "half_images": True,
                "batch_size": 512,
            },
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
    builder="inference_model",
)

service = Workload(
    name="resnet50-serve",
    title="ResNet-50 v1.5 as a service, single images at random instants",
    model=WEIGHTS,
    data=DATA,
    batch_size=1,
    epochs=1,
    task="infer",
    params={
        "jit_compile": False,
        "fused_batch_norm": False,
        "fold_batch_norm": False,
        "constant_weights": False,
        "half_images": False,
    },
    tuned={
        "feed": "resident",
        "fold_batch_norm": True,
        "gpu:precision": "fp16",
        "gpu:jit_compile": True,
        "cpu:batch_size": 8,
        "gpu:batch_size": 64,
        "gpu:constant_weights": True,
    },
    changes=(FOLDED, CONSTANT_WEIGHTS),
    # 15 ms is MLPerf Inference's bound for ResNet-50 in the Server scenario.
    requests=Requests(
        batch_sizes=(1, 2, 4, 8, 16, 32),
        compiled_batch_sizes=(1, 4, 16, 64),
        server=True,
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
    suite="extra",
    builder="inference_model",
)

workloads = (training, inference, service)


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


def inference_model(params: Mapping[str, Any]) -> tf.keras.Model:
    """Return the model for prediction."""
    return resnet.inference(params)


def dataset(params: Mapping[str, Any], data_dir: str) -> Sequence[Stage]:
    """Return the one stage: a random batch in host memory, again and again."""
    del data_dir
    return (("batch", lambda: resnet.synthetic(params["batch_size"], seed=1)),)


def metrics(params: Mapping[str, Any]) -> Mapping[str, tuple[float, str]]:
    """Return the arithmetic of one sample, and the device's measured matrix rates."""
    macs = resnet.macs(resnet.resnet50(fused_batch_norm=False))
    passes = resnet.PASSES_TRAINING if params["task"] == "train" else 1
    flops = float(passes * resnet.FLOP_PER_MAC * macs)
    return {"flops_per_sample": (flops, "FLOP"), **probe.rates(params["device"])}
