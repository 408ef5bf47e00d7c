"""Cases for a real GPU: the same scripts with a real network.

The lost time is known from the step time of the same workload without the bottleneck.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from benchmarks.truth.case import Case, Environment
from harness.model.analysis import Cause

PICTURES: dict[str, Any] = {"WIDTH": 128, "BATCH_SIZE": 256, "THREADS": 16}
# A step of this network is long compared with the overhead of Keras fit.
FILES = {**PICTURES, "WIDTH": 192}
SMALL = {**FILES, "SIDE": 128}

gpu_case = partial(Case, device="gpu")

GPU_CASES = (
    gpu_case("gpu-pictures-small", Cause.COMPUTE, "jpegs", "small JPEG files decoded on all CPUs", SMALL),
    gpu_case("gpu-jpeg-large", Cause.INPUT, "jpegs", "1-megapixel JPEG files decoded on all CPUs",
             {**FILES, "SIDE": 1024}, stage="decode", control="gpu-pictures-small"),
    gpu_case("gpu-jpeg-serial", Cause.INPUT, "jpegs", "small JPEG files decoded serially",
             {**SMALL, "THREADS": 0}, control="gpu-pictures-small"),
    gpu_case("gpu-augment-light", Cause.COMPUTE, "augmenting", "cropping only", {**PICTURES, "ROUNDS": 0}),
    gpu_case("gpu-augment-heavy", Cause.INPUT, "augmenting", "four rounds of colour augmentation",
             {**PICTURES, "ROUNDS": 4}, stage="augment", control="gpu-augment-light"),
    gpu_case("gpu-generator", Cause.INPUT, "generating", "text parsed by a Python generator",
             {"WIDTH": 4096, "BATCH_SIZE": 256, "FIELDS": 2000}, stage="generate"),
    gpu_case("gpu-copy", Cause.COPY, "computing",
             "half a gigabyte copied to the GPU per step, little computation", {"SIDE": 1024, "BATCH_SIZE": 32},
             stage="copy"),
    gpu_case("gpu-run-eagerly", Cause.RUN_EAGERLY, "framework", "six convolutions, run eagerly",
             {"CONVOLUTIONS": 6, "EAGER": True, "BATCH_SIZE": 64}),
    gpu_case("gpu-numpy-in-step", Cause.PYTHON_IN_STEP, "framework", "20 ms of numpy_function in the step",
             {"CONVOLUTIONS": 6, "PYTHON_MS": 20, "BATCH_SIZE": 64}),
    gpu_case("gpu-checkpoints", Cause.CALLBACKS, "framework", "the model saved every 20 steps",
             {"CONVOLUTIONS": 6, "SAVE_EVERY": 20, "BATCH_SIZE": 64}),
    gpu_case("gpu-float64", Cause.PRECISION, "computing", "dense layers in float64",
             {"BATCH_SIZE": 4096, "WIDTH": 4096, "PRECISION": "float64"}),
    gpu_case("gpu-layer-on-cpu", Cause.ON_CPU, "computing", "one of four dense layers placed on the CPU",
             {"BATCH_SIZE": 1024, "WIDTH": 4096, "CPU_LAYER": True}),
    gpu_case("gpu-tiny-model", Cause.LAUNCH, "computing", "a tiny network, batch size 32",
             {"BATCH_SIZE": 32, "WIDTH": 16, "DEPTH": 2}),
    gpu_case("gpu-batch-1", Cause.LAUNCH, "computing", "a small network, batch size 1",
             {"BATCH_SIZE": 1, "WIDTH": 512, "DEPTH": 8}),
    gpu_case("gpu-dense", Cause.COMPUTE, "computing", "8192 x 8192 matrix products",
             {"BATCH_SIZE": 4096, "WIDTH": 8192, "DEPTH": 4}),
    gpu_case("gpu-table", Cause.MEMORY_BANDWIDTH, "computing", "each sample reads a gigabyte of GPU memory",
             {"ROWS": 262_144, "BATCH_SIZE": 8}),
    gpu_case("gpu-quota", Cause.QUOTA, "jpegs", "small JPEG files, 16 threads with a quota of one CPU", SMALL,
             mixed=True, control="gpu-pictures-small", environment=Environment(cpu_quota=1.0)),
    gpu_case("gpu-neighbour-harmless", Cause.COMPUTE, "augmenting",
             "four neighbours on CPUs that the workload does not need", {**PICTURES, "ROUNDS": 0, "THREADS": 8},
             environment=Environment(neighbours=4)),
)  # fmt: skip
