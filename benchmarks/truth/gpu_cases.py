"""Cases for a real GPU: the same workload files, in front of a network that computes for real.

What is lost there is told by the step time of the same workload without the bottleneck.
"""

from __future__ import annotations

from typing import Any

from benchmarks.truth.case import Case, Environment, Kind

PICTURES: dict[str, Any] = {"real": "convolutions", "width": 128, "batch_size": 256, "threads": 16}
# A step of this network is long beside what Keras fit adds to it.
FILES = {**PICTURES, "width": 192}
SMALL = {**FILES, "side": 128}

GPU_CASES = (
    Case(
        name="gpu-pictures-small", planted=Kind.ARITHMETIC, device="gpu", workload="jpegs",
        text="small JPEG files decoded on all CPUs", params=SMALL,
    ),
    Case(
        name="gpu-jpeg-large", planted=Kind.INPUT, stage="decode", device="gpu", workload="jpegs",
        control="gpu-pictures-small", text="JPEG files of a megapixel, decoded on all CPUs",
        params={**FILES, "side": 1024},
    ),
    Case(
        name="gpu-jpeg-serial", planted=Kind.INPUT, device="gpu", workload="jpegs",
        control="gpu-pictures-small", text="small JPEG files decoded one after another",
        params={**SMALL, "threads": 1},
    ),
    Case(
        name="gpu-augment-light", planted=Kind.ARITHMETIC, device="gpu", workload="augmenting",
        text="cropping alone", params={**PICTURES, "rounds": 0},
    ),
    Case(
        name="gpu-augment-heavy", planted=Kind.INPUT, stage="augment", device="gpu", workload="augmenting",
        control="gpu-augment-light", text="four rounds of recolouring", params={**PICTURES, "rounds": 4},
    ),
    Case(
        name="gpu-generator", planted=Kind.INPUT, stage="generate", device="gpu", workload="generating",
        text="text parsed by a Python generator",
        params={"real": "dense", "width": 4096, "batch_size": 256, "fields": 2000},
    ),
    Case(
        name="gpu-copy", planted=Kind.COPY, stage="copy", device="gpu", workload="computing",
        text="half a gigabyte copied to the GPU each step, of which little is computed",
        params={"side": 1024, "batch_size": 32},
    ),
    Case(
        name="gpu-run-eagerly", planted=Kind.FRAMEWORK, cause="run_eagerly", device="gpu", workload="framework",
        text="six convolutions, run eagerly", params={"convolutions": 6, "eager": 1, "batch_size": 64},
    ),
    Case(
        name="gpu-numpy-in-step", planted=Kind.FRAMEWORK, cause="Python in the step", device="gpu",
        workload="framework", text="20 ms of numpy_function in the step",
        params={"convolutions": 6, "python_ms": 20, "batch_size": 64},
    ),
    Case(
        name="gpu-tiny-model", planted=Kind.LAUNCH, device="gpu", workload="computing",
        text="a tiny network, 32 samples a step", params={"batch_size": 32, "width": 16, "depth": 2},
    ),
    Case(
        name="gpu-batch-1", planted=Kind.LAUNCH, device="gpu", workload="computing",
        text="a network of some size, one sample a step", params={"batch_size": 1, "width": 512, "depth": 8},
    ),
    Case(
        name="gpu-dense", planted=Kind.ARITHMETIC, device="gpu", workload="computing",
        text="products of 8192 x 8192 matrices", params={"batch_size": 4096, "width": 8192, "depth": 4},
    ),
    Case(
        name="gpu-table", planted=Kind.MEMORY, device="gpu", workload="computing",
        text="each sample goes over a gigabyte of the GPU's memory", params={"rows": 262_144, "batch_size": 8},
    ),
    Case(
        name="gpu-quota", mixed=True, planted=Kind.QUOTA, device="gpu", workload="jpegs",
        control="gpu-pictures-small", text="small JPEG files, one CPU's time for 16 threads",
        params=SMALL, environment=Environment(cpu_quota=1.0),
    ),
    Case(
        name="gpu-neighbour-harmless", planted=Kind.ARITHMETIC, device="gpu", workload="augmenting",
        text="four neighbours on CPUs that the workload does not need",
        params={**PICTURES, "rounds": 0, "threads": 8}, environment=Environment(neighbours=4),
    ),
)  # fmt: skip
