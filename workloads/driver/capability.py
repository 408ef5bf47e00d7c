"""Measure what a device can do at best, with the same framework as the workloads.

Each variant of the spec is one capability: a window around the measurement, so that telemetry shows its clocks and
power, and a metric RATE in operations, bytes, images or seconds. Those that a device lacks are left out with a reason.
"""

from __future__ import annotations

import ctypes
import math
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from workloads.driver import devices, repeatability
from workloads.driver.gpu_exchange import Cuda, UnavailableError, Work, all_reduce, peers
from workloads.driver.measuring import report
from workloads.driver.processes import End
from workloads.driver.results import Results
from workloads.driver.trial import Task
from workloads.protocol import (
    ALL_REDUCE,
    COPIES,
    CORE_SUFFIX,
    NODE_PREFIX,
    PEER_ACCESS,
    PEER_PREFIX,
    PRECISION,
    PRECISIONS,
    RATE,
    SOAK,
    STEADY,
    WORK,
    EventWriter,
    NoGpuError,
    Spec,
    all_reduce_mib,
    peers_of,
)

CHUNK_S = 0.05
# (rows, inner, columns), ascending: which one reaches the peak differs between GPUs. The last one is the best of those
# that stas00's ml-engineering found on H100 and MI300X.
SHAPES = (
    (2048, 2048, 2048),
    (4096, 4096, 4096),
    (8192, 8192, 8192),
    (16384, 8192, 16384),
    (6144, 17920, 2816),
)
CPU_SHAPES = ((1024, 1024, 1024), (2048, 2048, 2048), (4096, 4096, 4096))
GPU_BYTES, COPY_BYTES = 1 << 30, 256 << 20
# Of one array of a thread; few threads get more, so that all arrays exceed the caches.
CPU_BYTES, MOST_CPU_BYTES = 32 << 20, 128 << 20
LAUNCHES = 200
# One shape: XLA compiles each for seconds.
FP8_SHAPE = (8192, 8192, 8192)
# Each pair of GPUs is measured for so long: there are 56 of eight.
PAIR_S = 0.15
SOAK_WINDOW_S = 1.0
# Comparing results pauses the load for 40 ms on four H200, so it is done this often.
SOAK_CHECK_S = 10.0
# The mean size of the pictures of cats and dogs.
PICTURE = (375, 500, 3)
SEGMENT_BYTES, READERS, MOST_READ_BYTES = 8 << 20, 4, 1 << 30

Shape = tuple[int, int, int]


def rate(work: Work, seconds: float) -> tuple[float, int]:
    """Return the median rate of chunks of calls, in units of work per second, and the number of calls."""
    call, amount, wait = work
    _once(work)
    count = max(1, round(CHUNK_S / max(_once(work), 1e-6)))
    rates: list[float] = []
    end = time.perf_counter() + seconds
    while len(rates) < 3 or time.perf_counter() < end:
        began = time.perf_counter()
        for _ in range(count):
            call()
        wait()
        rates.append(amount * count / (time.perf_counter() - began))
    return statistics.median(rates), count * len(rates)


def matrix(name: str, device: str, seconds: float) -> Work:
    """Return products of the shape that is fastest for a precision."""
    if name == "fp8":
        return fp8_products(device, FP8_SHAPE)
    return products(name, device, fastest_shape(name, device, seconds))


def products(name: str, device: str, shape: Shape) -> Work:
    """Return products of a shape (rows, inner, columns).

    The matrices are random: zeros draw less power and let GPUs clock higher than under real load.
    """
    rows, inner, columns = shape
    tf.config.experimental.enable_tensor_float_32_execution(name == "tf32")
    dtype = {"fp64": "float64", "bf16": "bfloat16", "fp16": "float16"}.get(name, "float32")
    with tf.device(device):
        left = tf.cast(tf.random.normal((rows, inner)), dtype)
        right = tf.cast(tf.random.normal((inner, columns), stddev=inner**-0.5), dtype)
    return (
        partial(_on, device, tf.linalg.matmul, left, right),
        2.0 * rows * inner * columns,
        devices.synchronise,
    )


def fastest_shape(name: str, device: str, seconds: float) -> Shape:
    """Return the shape whose products reach the most operations per second."""
    if device.startswith("GPU") and name in ("tf32", "bf16"):
        _require((8, 0), "Ampere")
    speeds: dict[Shape, float] = {}
    for shape in SHAPES if device.startswith("GPU") else CPU_SHAPES:
        # A GPU without FP64 units would take minutes for the larger shapes.
        if speeds and 2.0 * math.prod(shape) / max(speeds.values()) > max(CHUNK_S, seconds / 4):
            continue
        try:
            # Single calls would favour large shapes, by the cost of waiting for each.
            speeds[shape], _ = rate(products(name, device, shape), 0.0)
        except tf.errors.ResourceExhaustedError:
            break
    if not speeds:
        raise UnavailableError("The memory is too small for the smallest matrices.")
    return max(speeds, key=lambda shape: speeds[shape])


def _require(capability: tuple[int, int], generation: str) -> None:
    """Raise UnavailableError for a GPU of a lower compute capability; an unknown one is accepted."""
    details = tf.config.experimental.get_device_details(tf.config.get_visible_devices("GPU")[0])
    if details.get("compute_capability", capability) < capability:
        raise UnavailableError(f"Only GPUs from {generation} on have this precision.")


def fp8_products(device: str, shape: Shape) -> Work:
    """Return products of FP8 matrices (E4M3), with one scale for each, into BF16.

    TensorFlow has no operation for it. XLA makes a product of cuBLASLt of the conversions and the product
    (openxla/xla discussion 22); whether it did is read in what it compiled.

    Raises:
        UnavailableError: the GPU is older than Ada, or XLA would multiply in another precision.
    """
    _require((8, 9), "Ada")
    rows, inner, columns = shape
    kind = tf.dtypes.experimental.float8_e4m3fn

    @tf.function(jit_compile=True, autograph=False)
    def matrices(seed: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        shapes = (rows, inner), (columns, inner)
        left, right = (tf.random.stateless_normal(each, [seed, len(each)]) for each in shapes)
        return tf.cast(left, kind), tf.cast(right, kind)

    @tf.function(jit_compile=True, autograph=False)
    def product(left: tf.Tensor, right: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
        left, right = (tf.cast(each, tf.bfloat16) * scale for each in (left, right))
        # The second one transposed, as cuBLASLt wants it.
        return tf.matmul(left, right, transpose_b=True)

    with tf.device(device):
        given = (*matrices(tf.constant(1)), tf.constant(inner**-0.25, tf.bfloat16))
        try:
            compiled = str(product.experimental_get_compiler_ir(*given)(stage="optimized_hlo"))
        except (TypeError, ValueError, RuntimeError) as error:
            raise UnavailableError(f"What XLA makes of an FP8 product cannot be read: {error}") from error
    if "matmul$f8" not in compiled:
        raise UnavailableError("XLA multiplies in another precision here.")
    return partial(_on, device, product, *given), 2.0 * rows * inner * columns, devices.synchronise


def _on(device: str, function: Callable[..., Any], *arguments: Any) -> Any:
    with tf.device(device):
        return function(*arguments)


def _once(work: Work) -> float:
    """Return the seconds of one call."""
    began = time.perf_counter()
    work[0]()
    work[2]()
    return time.perf_counter() - began


def gpu_memory(device: str) -> Work:
    """Return additions in place: two reads and one write of GPU_BYTES."""
    with tf.device(device):
        total = tf.Variable(tf.zeros(GPU_BYTES // 4))
        more = tf.random.normal((GPU_BYTES // 4,))
    return partial(total.assign_add, more, read_value=False), 3.0 * GPU_BYTES, devices.synchronise


def launch(device: str) -> Work:
    """Return a compiled chain of kernels on one number, so that only their launches take time."""
    with tf.device(device):
        start = tf.constant([0.5])

        @tf.function(autograph=False)
        def chain(value: tf.Tensor) -> tf.Tensor:
            for _ in range(LAUNCHES):
                value = tf.math.sin(value)
            return value

    return partial(chain, start), float(LAUNCHES), devices.synchronise


def copy(name: str) -> Work:
    """Return copies of COPY_BYTES by the CUDA runtime, from or to pinned or pageable host memory."""
    cuda = Cuda()
    size, gpu, pinned = ctypes.c_size_t(COPY_BYTES), ctypes.c_void_p(), ctypes.c_void_p()
    cuda("cudaSetDevice", 0)
    cuda("cudaMalloc", ctypes.byref(gpu), size)
    if name.endswith("pinned"):
        cuda("cudaMallocHost", ctypes.byref(pinned), size)
        host = pinned
    else:
        pageable = np.ones(COPY_BYTES, np.uint8)
        host = pageable.ctypes.data_as(ctypes.c_void_p)  # keeps the array alive
    # cudaMemcpyHostToDevice is 1, cudaMemcpyDeviceToHost 2.
    arguments = (gpu, host, size, 1) if name.startswith("to") else (host, gpu, size, 2)
    return (
        partial(cuda, "cudaMemcpy", *arguments),
        float(COPY_BYTES),
        partial(cuda, "cudaDeviceSynchronize"),
    )


def cpu_memory(threads: int) -> Work:
    """Return STREAM's "add": c = a + b by threads of their own, counted as two reads and one write."""
    pool = ThreadPoolExecutor(threads)
    size = max(CPU_BYTES, MOST_CPU_BYTES // threads)
    # Each thread touches its arrays first, so that they are on its NUMA node.
    arrays = list(pool.map(lambda _: [np.ones(size // 8) for _ in range(3)], range(threads)))

    def add() -> None:
        list(pool.map(lambda each: np.add(each[0], each[1], out=each[2]), arrays))

    return add, 3.0 * size * threads, lambda: None


def jpeg(threads: int) -> Work:
    """Return decoded pictures, in batches."""
    smooth = tf.image.resize(
        tf.random.uniform((PICTURE[0] // 8, PICTURE[1] // 8, 3), maxval=255.0), PICTURE[:2]
    )
    noisy = tf.clip_by_value(smooth + tf.random.normal(PICTURE, stddev=8.0), 0, 255)
    encoded = tf.io.encode_jpeg(tf.cast(noisy, tf.uint8), quality=90)

    def decode(content: tf.Tensor) -> tf.Tensor:
        return tf.shape(tf.io.decode_jpeg(content))[0]

    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    batch = 8 * threads
    data = (
        tf.data.Dataset.from_tensors(encoded)
        .repeat()
        .map(decode, num_parallel_calls=threads if threads > 1 else None)
    )
    pictures = iter(data.batch(batch).with_options(options))
    return partial(next, pictures), float(batch), lambda: None


def read(folder: str) -> tuple[float, int]:
    """Return bytes per second of reading the data from disk, past the page cache, and the number of reads."""
    paths = sorted(path for path in Path(folder).rglob("*") if path.is_file()) if folder else []
    segments = [
        (path, start) for path in paths for start in range(0, max(1, path.stat().st_size), SEGMENT_BYTES)
    ][: MOST_READ_BYTES // SEGMENT_BYTES]

    def one(segment: tuple[Path, int]) -> int:
        file = os.open(segment[0], os.O_RDONLY)
        try:
            os.posix_fadvise(file, segment[1], SEGMENT_BYTES, os.POSIX_FADV_DONTNEED)
            return len(os.pread(file, SEGMENT_BYTES, segment[1]))
        finally:
            os.close(file)

    began = time.perf_counter()
    with ThreadPoolExecutor(READERS) as pool:
        count = sum(pool.map(one, segments))
    if not count:
        raise UnavailableError("The workloads read no files.")
    return count / (time.perf_counter() - began), len(segments)


@contextmanager
def one_core() -> Iterator[None]:
    """Confine all threads of this process to one CPU."""
    everywhere = os.sched_getaffinity(0)
    _confine({min(everywhere)})
    try:
        yield
    finally:
        # TensorFlow may have started threads meanwhile, which inherited the confinement.
        _confine(everywhere)


@contextmanager
def numa_node(number: int) -> Iterator[None]:
    """Confine this process to the CPUs of a NUMA node, on which the memory is that it allocates and touches.

    Raises:
        UnavailableError: none of them may be used here.
    """
    path = Path(f"/sys/devices/system/node/node{number}/cpulist")
    spans = path.read_text(encoding="ascii").strip().split(",") if path.exists() else []
    ends = [list(map(int, span.split("-"))) for span in spans if span]
    everywhere = os.sched_getaffinity(0)
    own = everywhere & {cpu for each in ends for cpu in range(each[0], each[-1] + 1)}
    if not own:
        raise UnavailableError(f"No CPU of NUMA node {number} may be used here.")
    _confine(own)
    try:
        yield
    finally:
        _confine(everywhere)


def _confine(cpus: set[int]) -> None:
    for path in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(path.name), cpus)


def measure(name: str, names: Sequence[str], spec: Spec) -> tuple[float, int]:
    """Measure one capability; return its rate and the number of calls.

    Raises:
        UnavailableError: the device does not have it.
    """
    # All of a device's capabilities together take about as long as a variant of a workload.
    seconds, cpus = spec.window_s / 2, len(os.sched_getaffinity(0))
    on_gpu = names[0].startswith("GPU")
    kind = name.removesuffix(CORE_SUFFIX)
    threads = 1 if kind != name else cpus
    if kind == "read":
        return read(next(iter(spec.data.values()), ""))
    if kind.startswith(ALL_REDUCE):
        return rate(all_reduce(names, all_reduce_mib(kind) << 20), seconds)
    if kind.startswith(PEER_PREFIX):
        return rate(peers().copy(*peers_of(kind)), min(seconds, PAIR_S))
    if kind in PRECISIONS and threads == 1 and not on_gpu:
        with one_core():
            return rate(matrix(kind, names[0], seconds), seconds)
    if kind in PRECISIONS:
        return rate(matrix(kind, names[0], seconds), seconds)
    if kind in COPIES:
        return rate(copy(kind), seconds)
    if kind.startswith(NODE_PREFIX):
        with numa_node(int(kind.removeprefix(NODE_PREFIX))):
            return rate(copy(NODE_PREFIX.removesuffix(":")), seconds)
    works = {"memory": lambda: cpu_memory(threads), "jpeg": lambda: jpeg(threads)}
    if on_gpu:
        works = {"memory": lambda: gpu_memory(names[0]), "launch": lambda: launch(names[0])}
    return rate(works[kind](), seconds)


def work(task: Task, spec: Spec, events: EventWriter, results: Results, end: End) -> None:
    """Measure the capabilities of a task in this process."""
    del end
    try:
        names = devices.registered(spec.device, spec.gpus)
        devices.prove(names)
    except NoGpuError as error:
        report(events, error)
        return
    # TensorFlow makes one thread for each CPU that it may use when its first operation runs.
    tf.zeros(()).numpy()
    if not results.facts:
        events.write("facts", facts=devices.facts(names))
    for name in task.variants:
        events.write("reading", variant=name)
        if name == SOAK:
            soak(names, spec.soak_s, events)
            continue
        events.write("variant", variant=name, params={}, changes=[])
        start_ns = time.monotonic_ns()
        try:
            if name.startswith(PEER_PREFIX):
                events.metric(name, PEER_ACCESS, float(peers().access(*peers_of(name))))
            value, calls = measure(name, names, spec)
        except (UnavailableError, tf.errors.OpError, MemoryError) as error:
            events.left_out(name, str(error))
            continue
        events.write(
            "window", variant=name, index=0, start_ns=start_ns, end_ns=time.monotonic_ns(), steps=calls,
            samples=calls, wait_ns=-1,
        )  # fmt: skip
        events.metric(name, RATE, value)
    if SOAK not in task.variants:
        repeatability.check(names, "", events)


def soak(
    names: Sequence[str], seconds: float, events: EventWriter, compared: repeatability.Answers | None = None
) -> None:
    """Multiply matrices on all devices without pause and write a window for each second or so.

    Between windows, every SOAK_CHECK_S, seeded results of GPUs are compared with the first ones.

    Args:
        compared: what compares them, also of CPUs.
    """
    precision = "fp16" if names[0].startswith("GPU") else "fp32"
    events.write("variant", variant=SOAK, params={PRECISION: precision}, changes=[])
    # One shape for all: with a shape each, the device with the smaller one would idle.
    shape = fastest_shape(precision, names[0], SOAK_WINDOW_S)
    works = [products(precision, name, shape) for name in names]
    wait = devices.synchronise

    def call() -> None:
        for product, _, _ in works:
            product()

    work = sum(amount for _, amount, _ in works)
    events.metric(SOAK, WORK, work)
    steps = max(1, round(SOAK_WINDOW_S / _once((call, work, wait))))
    gpus = [name for name in names if name.startswith("GPU")]
    compared = compared or repeatability.Answers(gpus, SOAK, events)
    compared.check()  # cold, and outside of the windows as all later ones
    began_ns = checked_ns = time.monotonic_ns()
    start_ns, index = began_ns, 0
    while start_ns - began_ns < seconds * 1e9:
        for _ in range(steps):
            call()
        wait()
        end_ns = time.monotonic_ns()
        events.write(
            "window", variant=SOAK, index=index, start_ns=start_ns, end_ns=end_ns, steps=steps, samples=steps,
            wait_ns=-1,
        )  # fmt: skip
        # The first call may have been slow.
        steps = max(1, round(steps * SOAK_WINDOW_S * 1e9 / (end_ns - start_ns)))
        if end_ns - checked_ns >= SOAK_CHECK_S * 1e9:
            compared.check()
            checked_ns = end_ns
        start_ns, index = time.monotonic_ns(), index + 1
    compared.check()
    compared.end()
    events.write("phase", name=STEADY, variant=SOAK, start_ns=began_ns, end_ns=start_ns)
