"""Cases without a GPU: a simulated accelerator fed by metered or real input, and real computation.

The simulated accelerator (scripts/parts.py) takes a known time per sample and no CPU, as in DLIO. The
lost time is therefore known: by construction for metered input, else from the step time.
"""

from __future__ import annotations

from typing import Any

from benchmarks.truth.case import Case, Environment
from harness.model.analysis import Cause

BATCH = 8
RECORD_BYTES = 4 * 4096
DEVICE_US = 3000


def reading(
    name: str,
    text: str,
    ratio: float,
    planted: Cause,
    *,
    prefetch: int = 2,
    bus: float = 0,
    device_us: int = DEVICE_US,
    **params: Any,
) -> Case:
    """Return a case of metered reading that takes `ratio` times the device time.

    Args:
        bus: copy time over device time; copies overlap nothing.
        device_us: device time per sample.
    """
    device_s = BATCH * device_us / 1e6
    period_s = device_s * ratio
    serial_s = device_s * (1 + bus) + (0 if prefetch else period_s)
    return Case(
        name=name,
        text=text,
        planted=planted,
        script="reading",
        params={
            "STORE_BYTES_PER_S": BATCH * RECORD_BYTES / period_s,
            "BUS_BYTES_PER_S": BATCH * RECORD_BYTES / (device_s * bus) if bus else 0.0,
            "PREFETCH": prefetch,
            "SAMPLE_US": device_us,
            **params,
        },
        stage={Cause.INPUT: "read", Cause.COPY: "copy"}.get(planted, ""),
        lost=1 - device_s / max(serial_s, period_s),
    )


METERED = (
    reading("read-slow", "storage with a third of the throughput that the device needs", 3.0, Cause.INPUT),
    reading("read-mild", "storage 1.6 times too slow", 1.6, Cause.INPUT),
    reading("read-edge", "storage 1.25 times too slow", 1.25, Cause.INPUT, device_us=6000, prefetch=1),
    reading("read-hidden", "storage almost as slow as the device, hidden by prefetching", 0.85, Cause.COMPUTE),
    reading("read-fast", "storage four times as fast as the device", 0.25, Cause.COMPUTE),
    reading("read-credit", "storage whose burst credit runs out after the first steps", 2.0, Cause.INPUT,
            CREDIT_BYTES=16 * BATCH * RECORD_BYTES),
    reading("no-prefetch", "serial reading, half of the device time", 0.5, Cause.OVERLAP, prefetch=0),
    reading("no-prefetch-mild", "serial reading, a sixth of the device time", 1 / 6, Cause.OVERLAP, prefetch=0,
            device_us=6000),
    reading("no-prefetch-edge", "serial reading, 2 % of the device time: negligible", 0.02, Cause.COMPUTE,
            prefetch=0, device_us=10_000),
    reading("copy-large", "copies as long as computation, no overlap", 0.05, Cause.COPY, bus=1.0),
    reading("copy-mild", "copies a quarter as long as computation", 0.05, Cause.COPY, bus=0.25, device_us=6000),
    reading("copy-small", "copies 2 % as long: negligible", 0.05, Cause.COMPUTE, bus=0.02, device_us=10_000),
)  # fmt: skip

REAL_INPUT = (
    Case("jpeg-large", Cause.INPUT, "jpegs", "1-megapixel JPEG files, decoded serially", stage="decode",
         control="jpeg-small"),
    Case("jpeg-huge", Cause.INPUT, "jpegs", "4-megapixel JPEG files, decoded serially",
         {"SIDE": 2048, "BATCH_SIZE": 2, "SAMPLE_US": 8000}, stage="decode", step_s=2 * 0.008),
    Case("jpeg-small", Cause.COMPUTE, "jpegs", "0.02-megapixel JPEG files, decoded serially", {"SIDE": 128}),
    Case("augment-heavy", Cause.INPUT, "augmenting", "eight rounds of colour augmentation",
         {"ROUNDS": 8, "SAMPLE_US": 1500}, stage="augment", control="augment-light"),
    Case("augment-light", Cause.COMPUTE, "augmenting", "cropping only", {"ROUNDS": 0, "SAMPLE_US": 1500}),
    Case("generator-slow", Cause.INPUT, "generating", "text parsed by a Python generator",
         {"FIELDS": 60_000, "SAMPLE_US": 1500}, stage="generate", control="generator-fast"),
    Case("generator-fast", Cause.COMPUTE, "generating", "little text parsed by a Python generator",
         {"FIELDS": 64, "SAMPLE_US": 1500}),
    Case("cache-too-small", Cause.INPUT, "caching", "a cache of 48 samples, cycling through 64",
         {"SAMPLE_US": 1000}, stage="decode", control="cache-fits"),
    Case("cache-fits", Cause.COMPUTE, "caching", "the same cache with space for all 64",
         {"CAPACITY": 64, "SAMPLE_US": 1000}),
    Case("disk-throttled", Cause.DISK, "disk", "disk reads limited to 10 MB/s", {"SAMPLE_US": 400}, stage="read",
         control="disk-cached", environment=Environment(disk_read_bytes_per_s=10_000_000)),
    Case("disk-cached", Cause.COMPUTE, "disk", "the same limit, but the file is in the page cache",
         {"DROP": False, "SAMPLE_US": 400}, environment=Environment(disk_read_bytes_per_s=10_000_000)),
)  # fmt: skip

COMPUTING = (
    Case("launch-simulated", Cause.LAUNCH, "generating", "12 ms launch overhead per step, 4 ms computation",
         {"FIELDS": 64, "STEP_US": 12_000, "SAMPLE_US": 500}, lost=12 / 16),
    Case("batch-1", Cause.LAUNCH, "computing", "a tiny network, batch size 1",
         {"BATCH_SIZE": 1, "WIDTH": 16, "DEPTH": 2}),
    Case("tiny-model", Cause.LAUNCH, "computing", "a tiny network, batch size 32",
         {"BATCH_SIZE": 32, "WIDTH": 16, "DEPTH": 2}),
    Case("dense", Cause.COMPUTE, "computing", "1024 x 1024 matrix products", {"BATCH_SIZE": 512}),
    Case("dense-wide", Cause.COMPUTE, "computing", "2048 x 2048 matrix products",
         {"BATCH_SIZE": 256, "WIDTH": 2048, "DEPTH": 2}),
    Case("table", Cause.MEMORY_BANDWIDTH, "computing", "each sample reads 64 MB of memory",
         {"ROWS": 16384, "BATCH_SIZE": 2}),
)  # fmt: skip

FRAMEWORK = (
    Case("compiled", Cause.COMPUTE, "framework", "convolutions, compiled", {"CONVOLUTIONS": 6, "BATCH_SIZE": 64}),
    Case("compiled-small", Cause.LAUNCH, "framework", "small convolutions, compiled",
         {"CONVOLUTIONS": 6, "SIDE": 16}, also=(Cause.COMPUTE,)),
    Case("run-eagerly", Cause.RUN_EAGERLY, "framework", "small convolutions, run_eagerly",
         {"CONVOLUTIONS": 6, "SIDE": 16, "EAGER": True}, control="compiled-small"),
    Case("callback", Cause.CALLBACKS, "framework",
         "a callback that sleeps 20 ms in on_train_batch_end, 12 ms computation",
         {"CALLBACK_MS": 20, "SAMPLE_US": 1500}, lost=20 / 32),
    Case("numpy-in-step", Cause.PYTHON_IN_STEP, "framework",
         "15 ms of numpy_function in the step, 12 ms computation", {"PYTHON_MS": 15, "SAMPLE_US": 1500},
         lost=15 / 27),
    Case("metric-in-python", Cause.PYTHON_IN_STEP, "framework",
         "10 ms in Python, like a metric that waits for the device, 12 ms computation",
         {"PYTHON_MS": 10, "SAMPLE_US": 1500}, lost=10 / 22),
    Case("retracing", Cause.RETRACING, "framework", "every batch has a different length; XLA compiles each",
         {"CHANGING_LENGTHS": True}),
)  # fmt: skip

EPOCHS = (
    reading("slow-second-epoch", "a fast first epoch; later ones take 2.5 times the device time", 2.5,
            Cause.INPUT, device_us=1500, CREDIT_BYTES=16 * BATCH * RECORD_BYTES),
    Case("two-causes", Cause.OVERLAP, "reading",
         "12 ms input, 12 ms launch overhead, 12 ms computation, no overlap",
         {"STORE_BYTES_PER_S": BATCH * RECORD_BYTES / 0.012, "PREFETCH": 0, "STEP_US": 12_000, "SAMPLE_US": 1500},
         also=(Cause.LAUNCH,)),
)  # fmt: skip

PINNED = Environment(cpus="0")
ENVIRONMENTS = (
    Case("dense-pinned", Cause.COMPUTE, "computing", "one CPU without a quota", {"BATCH_SIZE": 256},
         environment=PINNED),
    Case("quota-half", Cause.QUOTA, "computing", "half of one CPU", {"BATCH_SIZE": 256}, lost=0.5,
         environment=Environment(cpus="0", cpu_quota=0.5)),
    Case("quota-mild", Cause.QUOTA, "computing", "four fifths of one CPU", {"BATCH_SIZE": 256}, lost=0.2,
         environment=Environment(cpus="0", cpu_quota=0.8)),
    Case("quota-decode", Cause.QUOTA, "jpegs", "a quarter of a CPU: decoding cannot keep up",
         {"SIDE": 1024, "SAMPLE_US": 16000}, mixed=True, step_s=8 * 0.016,
         environment=Environment(cpus="0", cpu_quota=0.25)),
    Case("quota-unused", Cause.COMPUTE, "reading", "half a CPU, mostly unused",
         {"STORE_BYTES_PER_S": 4e7, "SAMPLE_US": 3000}, environment=Environment(cpu_quota=0.5)),
    Case("neighbour", Cause.OTHER_PROGRAMS, "computing", "one other process on the same CPU", {"BATCH_SIZE": 256},
         lost=0.5, environment=Environment(cpus="0", neighbours=1)),
    Case("neighbours", Cause.OTHER_PROGRAMS, "computing", "a busy neighbour on each CPU", {"BATCH_SIZE": 512},
         control="dense", environment=Environment(neighbours=2)),
    Case("neighbour-harmless", Cause.COMPUTE, "reading", "a neighbour on a CPU that the workload does not need",
         {"STORE_BYTES_PER_S": 2e7, "SAMPLE_US": 3000}, environment=Environment(neighbours=1)),
)  # fmt: skip

CPU_CASES = (*METERED, *REAL_INPUT, *EPOCHS, *COMPUTING, *FRAMEWORK, *ENVIRONMENTS)
