"""Cases that need no GPU: a simulated accelerator behind real and metered input, and real computing.

The simulated accelerator (workloads/simulated.py) takes a known time a sample and no CPU, as DLIO's
does, so that the time lost is known: exactly where the input is metered too, else from the step time.
"""

from __future__ import annotations

from typing import Any

from benchmarks.truth.case import Case, Environment, Kind

BATCH = 8
RECORD_BYTES = 4 * 4096
DEVICE_US = 3000
DEVICE_S = BATCH * DEVICE_US / 1e6


def reading(
    name: str,
    text: str,
    ratio: float,
    planted: Kind,
    *,
    prefetch: int = 2,
    bus: float = 0,
    device_us: int = DEVICE_US,
    **params: Any,
) -> Case:
    """Return a case of metered reading that takes `ratio` times the device's time.

    Args:
        bus: what copying takes, which nothing overlaps, over the device's time.
        device_us: what the device takes a sample.
    """
    device_s = BATCH * device_us / 1e6
    period_s = device_s * ratio
    in_turn_s = device_s * (1 + bus) + (0 if prefetch else period_s)
    return Case(
        name=name,
        text=text,
        planted=planted,
        workload="reading",
        params={
            "store_bytes_per_s": BATCH * RECORD_BYTES / period_s,
            "bus_bytes_per_s": BATCH * RECORD_BYTES / (device_s * bus) if bus else 0.0,
            "prefetch": prefetch,
            "sample_us": device_us,
            **params,
        },
        stage={Kind.INPUT: "read", Kind.COPY: "copy"}.get(planted, ""),
        lost=1 - device_s / max(in_turn_s, period_s),
    )


METERED = (
    reading("read-slow", "a store that gives a third of what the device takes", 3.0, Kind.INPUT),
    reading("read-mild", "a store 1.6 times too slow", 1.6, Kind.INPUT),
    reading("read-edge", "a store 1.25 times too slow", 1.25, Kind.INPUT, device_us=6000, prefetch=1),
    reading("read-hidden", "a store almost as slow as the device, which hides it", 0.85, Kind.ARITHMETIC),
    reading("read-fast", "a store four times as fast as the device", 0.25, Kind.ARITHMETIC),
    reading(
        "read-credit", "a store whose burst credit runs out after the first steps", 2.0, Kind.INPUT,
        credit_bytes=16 * BATCH * RECORD_BYTES,
    ),
    reading("no-prefetch", "reading takes half of the device's time in turn", 0.5, Kind.OVERLAP, prefetch=0),
    reading("no-prefetch-mild", "the same with a sixth", 1 / 6, Kind.OVERLAP, prefetch=0, device_us=6000),
    reading(
        "no-prefetch-edge", "the same with 2 %: too little to matter", 0.02, Kind.ARITHMETIC, prefetch=0,
        device_us=10_000,
    ),
    reading("copy-large", "copying takes as long as computing, in turn", 0.05, Kind.COPY, bus=1.0),
    reading("copy-mild", "copying takes a quarter of computing", 0.05, Kind.COPY, bus=0.25, device_us=6000),
    reading("copy-small", "copying takes 2 %", 0.05, Kind.ARITHMETIC, bus=0.02, device_us=10_000),
)  # fmt: skip

REAL_INPUT = (
    Case(
        name="jpeg-large", planted=Kind.INPUT, stage="decode", workload="jpegs", control="jpeg-small",
        text="JPEG files of a megapixel, decoded one after another", params={"sample_us": 4000},
    ),
    Case(
        name="jpeg-huge", planted=Kind.INPUT, stage="decode", workload="jpegs", step_s=2 * 0.008,
        text="JPEG files of four megapixels", params={"side": 2048, "batch_size": 2, "sample_us": 8000},
    ),
    Case(
        name="jpeg-small", planted=Kind.ARITHMETIC, workload="jpegs", lost=0.0,
        text="JPEG files of 0.02 megapixels", params={"side": 128, "sample_us": 4000},
    ),
    Case(
        name="augment-heavy", planted=Kind.INPUT, stage="augment", workload="augmenting",
        control="augment-light",
        text="eight rounds of recolouring",
        params={"rounds": 8, "sample_us": 1500},
    ),
    Case(
        name="augment-light", planted=Kind.ARITHMETIC, workload="augmenting", lost=0.0,
        text="cropping alone", params={"rounds": 0, "sample_us": 1500},
    ),
    Case(
        name="generator-slow", planted=Kind.INPUT, stage="generate", workload="generating",
        control="generator-fast",
        text="text parsed by a Python generator",
        params={"fields": 60_000, "sample_us": 1500},
    ),
    Case(
        name="generator-fast", planted=Kind.ARITHMETIC, workload="generating", lost=0.0,
        text="little text parsed by a Python generator", params={"fields": 64, "sample_us": 1500},
    ),
    Case(
        name="cache-too-small", planted=Kind.INPUT, stage="decode", workload="caching", control="cache-fits",
        text="a cache of 48 samples for 64, gone round", params={"sample_us": 1000},
    ),
    Case(
        name="cache-fits", planted=Kind.ARITHMETIC, workload="caching", lost=0.0,
        text="the same cache with room for all", params={"capacity": 64, "sample_us": 1000},
    ),
    Case(
        name="disk-throttled", planted=Kind.INPUT, stage="read", workload="disk", control="disk-cached",
        text="the container's disk limited to 10 MB/s", params={"sample_us": 400},
        environment=Environment(disk_read_bytes_per_s=10_000_000),
    ),
    Case(
        name="disk-cached", planted=Kind.ARITHMETIC, workload="disk", lost=0.0,
        text="the same limit, but the page cache keeps the file", params={"drop": 0, "sample_us": 400},
        environment=Environment(disk_read_bytes_per_s=10_000_000),
    ),
)  # fmt: skip

COMPUTING = (
    Case(
        name="launch-simulated", planted=Kind.LAUNCH, workload="generating", lost=12 / 16,
        text="12 ms to start a step, 4 ms to compute it",
        params={"fields": 64, "step_us": 12_000, "sample_us": 500},
    ),
    Case(
        name="batch-1", planted=Kind.LAUNCH, workload="computing",
        text="a tiny network, one sample a step", params={"batch_size": 1, "width": 16, "depth": 2},
    ),
    Case(
        name="tiny-model", planted=Kind.LAUNCH, workload="computing",
        text="a tiny network, 32 samples a step", params={"batch_size": 32, "width": 16, "depth": 2},
    ),
    Case(
        name="dense", planted=Kind.ARITHMETIC, workload="computing",
        text="products of 1024 x 1024 matrices", params={"batch_size": 512},
    ),
    Case(
        name="dense-wide", planted=Kind.ARITHMETIC, workload="computing",
        text="products of 2048 x 2048 matrices", params={"batch_size": 256, "width": 2048, "depth": 2},
    ),
    Case(
        name="table", planted=Kind.MEMORY, workload="computing",
        text="each sample goes over 64 MB of memory", params={"rows": 16384, "batch_size": 2},
    ),
)  # fmt: skip

FRAMEWORK = (
    Case(
        name="compiled", planted=Kind.ARITHMETIC, workload="framework",
        text="convolutions, compiled", params={"convolutions": 6, "batch_size": 64},
    ),
    Case(
        name="compiled-small", planted=Kind.LAUNCH, also=(Kind.ARITHMETIC,), workload="framework",
        text="small convolutions, compiled", params={"convolutions": 6, "side": 16},
    ),
    Case(
        name="run-eagerly", planted=Kind.FRAMEWORK, cause="run_eagerly", workload="framework",
        control="compiled-small", text="the same with run_eagerly",
        params={"convolutions": 6, "side": 16, "eager": 1},
    ),
    Case(
        name="callback", planted=Kind.FRAMEWORK, cause="callbacks", workload="framework", lost=20 / 32,
        text="a callback that sleeps 20 ms in on_train_batch_end, 12 ms to compute",
        params={"callback_ms": 20, "sample_us": 1500},
    ),
    Case(
        name="numpy-in-step", planted=Kind.FRAMEWORK, cause="Python in the step", workload="framework",
        lost=15 / 27, text="15 ms of numpy_function in the step, 12 ms to compute",
        params={"python_ms": 15, "sample_us": 1500},
    ),
    Case(
        name="metric-in-python", planted=Kind.FRAMEWORK, cause="Python in the step", workload="framework",
        lost=10 / 22, text="10 ms in Python, as a metric that waits for the device takes, 12 ms to compute",
        params={"python_ms": 10, "sample_us": 1500},
    ),
    Case(
        name="retracing", planted=Kind.FRAMEWORK, cause="retracing", workload="framework",
        text="every batch has another length, and XLA compiles each", params={"lengths": 1},
    ),
)  # fmt: skip

EPOCHS = (
    reading(
        "slow-second-epoch", "the first epoch is fast, all later ones take 2.5 times the device's time", 2.5,
        Kind.INPUT, device_us=1500, credit_bytes=16 * BATCH * RECORD_BYTES,
    ),
    Case(
        name="two-causes", planted=Kind.OVERLAP, also=(Kind.LAUNCH,), workload="reading",
        text="12 ms of input and 12 ms of launch, in turn, 12 ms to compute",
        params={
            "store_bytes_per_s": BATCH * RECORD_BYTES / 0.012, "prefetch": 0, "step_us": 12_000, "sample_us": 1500,
        },
    ),
)  # fmt: skip

PINNED = Environment(cpus="0")
AROUND = (
    Case(
        name="dense-pinned", planted=Kind.ARITHMETIC, workload="computing",
        text="one CPU, whole", params={"batch_size": 256}, environment=PINNED,
    ),
    Case(
        name="quota-half", planted=Kind.QUOTA, workload="computing", lost=0.5,
        text="half of the one CPU that it would use", params={"batch_size": 256},
        environment=Environment(cpus="0", cpu_quota=0.5),
    ),
    Case(
        name="quota-mild", planted=Kind.QUOTA, workload="computing", lost=0.2,
        text="four fifths of that CPU", params={"batch_size": 256},
        environment=Environment(cpus="0", cpu_quota=0.8),
    ),
    Case(
        name="quota-decode", mixed=True, planted=Kind.QUOTA, workload="jpegs", step_s=8 * 0.016,
        text="a quarter of a CPU, too little for decoding to keep up",
        params={"side": 1024, "sample_us": 16000},
        environment=Environment(cpus="0", cpu_quota=0.25),
    ),
    Case(
        name="quota-unused", planted=Kind.ARITHMETIC, workload="reading", lost=0.0,
        text="half a CPU, of which little is used",
        params={"store_bytes_per_s": 4e7, "sample_us": 3000}, environment=Environment(cpu_quota=0.5),
    ),
    Case(
        name="neighbour", planted=Kind.CONTENTION, workload="computing", lost=0.5,
        text="one other process on the one CPU", params={"batch_size": 256},
        environment=Environment(cpus="0", neighbours=1),
    ),
    Case(
        name="neighbours", planted=Kind.CONTENTION, workload="computing", control="dense",
        text="a neighbour on each CPU", params={"batch_size": 512}, environment=Environment(neighbours=2),
    ),
    Case(
        name="neighbour-harmless", planted=Kind.ARITHMETIC, workload="reading", lost=0.0,
        text="a neighbour on a CPU that the workload does not need",
        params={"store_bytes_per_s": 2e7, "sample_us": 3000}, environment=Environment(neighbours=1),
    ),
)  # fmt: skip

CPU_CASES = (*METERED, *REAL_INPUT, *EPOCHS, *COMPUTING, *FRAMEWORK, *AROUND)
