"""Variants of a script that serves requests: throughput in windows, then the latency of single requests.

Latency is measured by MLPerf Inference's scenarios: SingleStream at each batch size, and Server.
SingleStream: each request waits for the previous one. Server: single samples arrive in a Poisson process,
fixed in advance; latency counts from the scheduled arrival, so that a server that falls behind cannot hide
it. A batch takes samples that have arrived, in the order of the pool, so that it is a slice of the pool and
copies nothing on the host. While one batch computes, the next is copied to the device, if that serves more.
"""

from __future__ import annotations

import gc
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from workloads.driver import keras_model
from workloads.driver.call import Call, rows
from workloads.driver.job import Job
from workloads.driver.script import ScriptError
from workloads.driver.timing import drive
from workloads.protocol import (
    BUILD,
    MAX_LATE_SHARE,
    MET_BOUND_MS,
    MIN_SERVER_REQUESTS,
    SERVER,
    SINGLE_STREAM,
    WORTH,
)
from workloads.variants import BASELINE, BATCH, MODEL_ONLY

# A 99th percentile needs at least 100 requests; slow devices run fewer and have no p99.
REQUESTS = 200
FEWEST_REQUESTS = 10
MAX_SERVER_REQUESTS = 40_000
PROBES = 5
# A slightly overloaded server falls behind slowly, so a series lasts this many times the bound.
LASTS_BOUNDS = 20
# Batches in flight; more than one if that is worth it.
IN_FLIGHT = (1, 2)
# Time budgets, in windows of the profile.
BATCH_WINDOWS, STOP_WINDOWS, OFFLINE_WINDOWS = 2.0, 20.0, 0.5
PROBE_WINDOWS, LONGEST_PROBE_WINDOWS = 4.0, 30.0
# Minimum rate worth reporting, as a share of the throughput of back-to-back batches.
USEFUL_SHARE = 0.2
NO_BOUND_NS = 1 << 62

# Takes a batch in host memory; returns when its predictions are in host memory. Runs in several threads.
Serve = Callable[[Any], None]


def as_written(job: Job, call: Call) -> None:
    """Run Keras' predict_on_batch on the call's first batch repeatedly, then time requests.

    A request goes from samples in host memory to predictions in host memory.
    """
    model, meter = call.model, job.meter
    batch = first_batch(call)
    if isinstance(batch, np.ndarray):
        batch = HostSamples(batch)[:]
    requests = job.spec.requests
    assert requests is not None  # other scripts are measured as Keras runs them
    meter.begin()
    going = True
    while going:
        model.predict_on_batch(batch)
        going = meter.tick(1, rows(batch))
    sizes = (requests.compiled_batch_sizes if model.jit_compile else ()) or requests.batch_sizes
    # Repeats samples if there are too few for a batch.
    samples = np.resize(np.asarray(batch), (2 * sizes[-1], *batch.shape[1:]))
    client = Client(job, model.predict_on_batch, HostSamples(samples))
    of_baseline = 0.0 if job.variant == BASELINE else job.results.metric(BASELINE, MET_BOUND_MS)
    job.metric(MET_BOUND_MS, client.measure(sizes, requests.bounds_ms, of_baseline or 0.0))


class HostSamples:
    """Samples as a tensor in host memory, of which slices share the memory.

    TensorFlow copies a NumPy array twice for each call, while no other thread can run Python. With GPUs the memory
    is page-locked, so that they copy at full speed, as MLPerf's load generators do: that is where TensorFlow has the
    output of map_and_batch.
    """

    def __init__(self, samples: NDArray[Any]) -> None:
        with tf.device("CPU:0"):
            whole = tf.data.experimental.map_and_batch(tf.identity, len(samples))
            self._samples = next(iter(tf.data.Dataset.from_tensor_slices(samples).apply(whole)))

    def __len__(self) -> int:
        return rows(self._samples)

    def __getitem__(self, part: slice) -> Any:
        with tf.device("CPU:0"):
            return self._samples[part]


def model_only(job: Job) -> None:
    """Run the model on a batch in device memory, to measure the cost of copies."""
    began = job.meter.clock()
    batch = np.concatenate([np.asarray(first_batch(job.call))] * BATCH.number(job.variant))
    forward = keras_model.compile_forward(job.call.model)
    job.meter.phase(BUILD, began)
    with tf.device(job.devices[0]):
        ready = tf.identity(tf.convert_to_tensor(batch))
        drive(job.meter, lambda: forward(ready), steps=1, samples=rows(batch))

    def serve(images: Any) -> None:
        with tf.device(job.devices[0]):
            forward(tf.convert_to_tensor(images)).numpy()

    if job.variant == MODEL_ONLY:
        Client(job, serve, batch).single_stream(len(batch))


def first_batch(call: Call) -> Any:
    """Return the call's first batch; a tensor stays on its device."""
    x, size = call.arguments["x"], call.arguments.get("batch_size") or 32
    if not isinstance(x, (np.ndarray, tf.Tensor)):
        raise ScriptError("Requests are made of an array: give predict one, or leave out [requests].")
    return x[:size]


class Client:
    """Send requests to one variant and write their latencies as events.

    Args:
        pool: samples in host memory, the largest batch twice, so that one that begins anywhere in the first
            half is a slice.
    """

    def __init__(self, job: Job, serve: Serve, pool: Any) -> None:
        self._job = job
        self._serve = serve
        self._pool = pool
        self._window_s = max(job.spec.window_s, 0.1)

    def single_stream(
        self, size: int, windows: float = BATCH_WINDOWS, scenario: str = SINGLE_STREAM
    ) -> list[int]:
        """Measure requests of one batch size; return their latencies in nanoseconds.

        Args:
            windows: time budget in windows of the profile.
            scenario: what the latencies are written as; "" to write none.
        """
        budget_ns = windows * self._window_s * 1e9
        batch = self._pool[:size]
        latencies: list[int] = []
        self._serve(batch)  # traces and compiles
        began = time.monotonic_ns()
        while len(latencies) < FEWEST_REQUESTS or (
            len(latencies) < REQUESTS and time.monotonic_ns() - began < budget_ns
        ):
            start = time.monotonic_ns()
            self._serve(batch)
            latencies.append(time.monotonic_ns() - start)
        if scenario:
            self.write(scenario, size, 0.0, began, latencies, planned=len(latencies))
        return latencies

    def measure(self, sizes: Sequence[int], bounds_ms: Sequence[float], compared_ms: float = 0.0) -> float:
        """Measure SingleStream at each batch size, ascending, then Server if there are bounds.

        Args:
            compared_ms: the bound that the baseline meets, for a variant that is compared with it; 0 if none.

        Returns:
            the tightest bound with a useful rate; 0 if none.
        """
        stop_ns = STOP_WINDOWS * self._window_s * 1e9
        latencies: dict[int, list[int]] = {}
        for size in sizes:
            last = max(latencies, default=0)
            if last and FEWEST_REQUESTS * float(np.median(latencies[last])) * size / last > stop_ns:
                self._warn(f"skipped batch sizes from {size}: a request would take too long.")
                break
            latencies[size] = self.single_stream(size)
        if not bounds_ms:
            return 0.0
        medians = {size: float(np.median(each)) for size, each in latencies.items()}
        single_ms = float(np.percentile(latencies[min(latencies)], 99)) / 1e6
        return self.search(bounds_ms, medians, single_ms, compared_ms)

    def search(
        self,
        bounds_ms: Sequence[float],
        medians: Mapping[int, float],
        single_ms: float,
        compared_ms: float = 0.0,
    ) -> float:
        """Find the largest rate within the tightest bound that allows a useful rate, and within the baseline's.

        A bound that only isolated requests meet is not useful: as soon as two overlap, one is late.

        Args:
            medians: median latency by batch size, in nanoseconds.
            single_ms: 99th percentile latency of the smallest batch size.

        Returns:
            the tightest bound with a useful rate; 0 if none.
        """
        possible = [bound for bound in sorted(bounds_ms) if bound > single_ms]
        if not possible:
            self._warn(f"a single request takes {single_ms:.3g} ms, longer than every latency bound.")
        met = next((bound_ms for bound_ms in possible if self._useful(bound_ms, medians)), 0.0)
        if 0.0 < met < compared_ms:
            self._useful(compared_ms, medians)
        return met

    def _useful(self, bound_ms: float, medians: Mapping[int, float]) -> bool:
        """Find the largest rate within a bound; return whether it is useful."""
        sizes = sizes_within(medians, bound_ms)
        fastest = fastest_sizes({size: medians[size] for size in sizes})
        peaks = {number: self.offline(fastest, medians[fastest[-1]], number) for number in IN_FLIGHT}
        in_flight = max(peaks, key=lambda number: peaks[number] / (1 if number == 1 else WORTH))
        peak = peaks[in_flight]
        return self.largest(fastest, in_flight, peak, bound_ms) >= USEFUL_SHARE * peak

    def offline(self, fastest: Sequence[int], batch_ns: float, in_flight: int) -> float:
        """Return samples/s if all have arrived before, which is MLPerf's Offline scenario."""
        batches = max(math.ceil(OFFLINE_WINDOWS * self._window_s * 1e9 / batch_ns), 2 * in_flight)
        began = time.monotonic_ns()
        due = np.full(batches * fastest[-1], began)
        _Series(self._serve, self._pool, fastest, due, NO_BOUND_NS).run(in_flight)
        return len(due) / (time.monotonic_ns() - began) * 1e9

    def largest(self, fastest: Sequence[int], in_flight: int, peak: float, bound_ms: float) -> float:
        """Bisect between 0 and `peak` for the largest rate within the bound, samples/s; 0 if none is.

        Stops at rates too low for the minimum number of requests within a series.
        """
        low, high = 0.0, peak
        for probe in range(PROBES):
            rate = (low + high) / 2
            if rate * LONGEST_PROBE_WINDOWS * self._window_s < MIN_SERVER_REQUESTS:
                break
            within = self.offer(fastest, in_flight, rate, bound_ms, probe)
            low, high = (rate, high) if within else (low, rate)
        return low

    def offer(self, fastest: Sequence[int], in_flight: int, rate: float, bound_ms: float, probe: int) -> bool:
        """Offer `rate` samples/s; return whether they meet the bound, stopping early once it is missed."""
        lasts_s = max(PROBE_WINDOWS * self._window_s, LASTS_BOUNDS * bound_ms / 1e3)
        lasts_s = min(lasts_s, LONGEST_PROBE_WINDOWS * self._window_s)
        planned = min(max(round(rate * lasts_s), MIN_SERVER_REQUESTS), MAX_SERVER_REQUESTS)
        random = np.random.default_rng((self._job.spec.seed, probe))
        began = time.monotonic_ns()
        due = began + np.cumsum(random.exponential(1e9 / rate, planned)).astype(np.int64)
        series = _Series(self._serve, self._pool, fastest, due, round(bound_ms * 1e6))
        latencies = series.run(in_flight)
        self.write(SERVER, max(fastest), rate, began, latencies, planned=planned)
        return series.within_bound

    def _warn(self, text: str) -> None:
        self._job.events.warning(f"{self._job.variant}: {text}")

    def write(
        self, scenario: str, batch_size: int, rate: float, began: int, latencies: list[int], *, planned: int
    ) -> None:
        """Write a series that began at `began` and ends now."""
        self._job.events.write(
            "requests", variant=self._job.variant, scenario=scenario, batch_size=batch_size, rate_per_s=rate,
            planned=planned, start_ns=began, end_ns=time.monotonic_ns(), latency_ns=latencies,
        )  # fmt: skip


@dataclass
class _Series:
    """Samples that arrive at fixed instants, served in order by several threads.

    Attributes:
        fastest: batch size by number of waiting samples.
        due: when each sample arrives, ascending.
        served: first sample, number of samples and end of each batch.
    """

    serve: Serve
    pool: Any
    fastest: Sequence[int]
    due: NDArray[np.int64]
    bound_ns: int
    taken: int = 0
    late: int = 0
    served: list[tuple[int, int, int]] = field(default_factory=list)
    taking: threading.Lock = field(default_factory=threading.Lock)

    @property
    def within_bound(self) -> bool:
        """Whether so few samples are late that the 99th percentile meets the bound."""
        return self.late <= MAX_LATE_SHARE * len(self.due)

    def run(self, in_flight: int) -> list[int]:
        """Serve until the bound is missed; return latencies in nanoseconds, in order of arrival."""
        # Going through all objects of a framework takes 0.2 s; a server freezes them before it takes requests.
        gc.freeze()
        try:
            with ThreadPoolExecutor(in_flight) as threads:
                for done in [threads.submit(self._work) for _ in range(in_flight)]:
                    done.result()
        finally:
            gc.unfreeze()
        _, counts, ends = zip(*sorted(self.served), strict=True)
        latencies: list[int] = (np.repeat(ends, counts) - self.due[: self.taken]).tolist()
        return latencies

    def _work(self) -> None:
        while True:
            with self.taking:
                first = self.taken
                if first == len(self.due) or not self.within_bound:
                    return
                _wait_until(int(self.due[first]))
                arrived = int(np.searchsorted(self.due, time.monotonic_ns(), side="right"))
                size = self.fastest[min(arrived - first, len(self.fastest) - 1)]
                last = self.taken = min(arrived, first + size)
            start = first % (len(self.pool) // 2)
            self.serve(self.pool[start : start + size])
            end = time.monotonic_ns()
            with self.taking:
                self.served.append((first, last - first, end))
                overdue = int(np.searchsorted(self.due, end - self.bound_ns))
                self.late += min(max(overdue, first), last) - first


def fastest_sizes(medians: Mapping[int, float]) -> tuple[int, ...]:
    """Return the batch size that serves most per second for 0, 1, 2 ... waiting samples.

    If more samples wait, the rest is left to the next batch; if fewer, the batch is filled up.

    Args:
        medians: median latency by batch size.
    """
    numbers = range(max(medians) + 1)
    return tuple(max(medians, key=lambda size: min(each, size) / medians[size]) for each in numbers)


def sizes_within(medians: Mapping[int, float], bound_ms: float) -> tuple[int, ...]:
    """Return the batch sizes of which two requests fit into a bound, ascending; always at least one.

    A sample that arrives just after a batch has started waits for that batch and then for its own.

    Args:
        medians: median latency by batch size, in nanoseconds.
    """
    smallest, *others = sorted(medians)
    return (smallest, *(size for size in others if 2 * medians[size] <= bound_ms * 1e6))


def _wait_until(instant_ns: int) -> None:
    # Spinning would keep the other thread from running Python.
    while (left := instant_ns - time.monotonic_ns()) > 0:
        time.sleep(left / 1e9)
