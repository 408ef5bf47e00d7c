"""Measure latency by MLPerf Inference's scenarios: SingleStream at each batch size, and Server.

SingleStream: each request waits for the previous one. Server: single samples arrive in a Poisson process,
fixed in advance; latency counts from the scheduled arrival, so that a server that falls behind cannot hide
it. One request runs at a time, with all samples that have arrived, up to the largest batch size of which two
requests fit into the latency bound: the running one and the sample's own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from workloads.driver.job import Job
from workloads.protocol import MAX_LATE_SHARE, MIN_SERVER_REQUESTS, SERVER, SINGLE_STREAM

# A 99th percentile needs at least 100 requests; slow devices run fewer and have no p99.
REQUESTS = 200
FEWEST_REQUESTS = 10
MAX_SERVER_REQUESTS = 20_000
PROBES = 5
# A slightly overloaded server falls behind slowly, so a series lasts this many times the bound.
LASTS_BOUNDS = 20
# Time budgets, in windows of the profile.
BATCH_WINDOWS, STOP_WINDOWS, PROBE_WINDOWS, LONGEST_PROBE_WINDOWS = 2.0, 20.0, 4.0, 30.0
# Minimum rate worth reporting, as a share of the throughput of back-to-back batches.
USEFUL_SHARE = 0.2
_SPIN_NS = 200_000  # the end of a wait is spent spinning, because sleep is inaccurate

# Takes a batch in host memory; returns when its predictions are in host memory.
Serve = Callable[[Any], None]


class Client:
    """Send requests to one variant and write their latencies as events.

    Args:
        pool: samples in host memory, one largest batch.
    """

    def __init__(self, job: Job, serve: Serve, pool: Any) -> None:
        self._job = job
        self._serve = serve
        self._pool = pool
        self._window_s = max(job.spec.window_s, 0.1)

    def single_stream(self, size: int) -> list[int]:
        """Measure requests of one batch size; return their latencies in nanoseconds."""
        budget_ns = BATCH_WINDOWS * self._window_s * 1e9
        batch, latencies = self._pool[:size], []
        self._serve(batch)  # traces and compiles
        began = time.monotonic_ns()
        while len(latencies) < FEWEST_REQUESTS or (
            len(latencies) < REQUESTS and time.monotonic_ns() - began < budget_ns
        ):
            start = time.monotonic_ns()
            self._serve(batch)
            latencies.append(time.monotonic_ns() - start)
        self._write(SINGLE_STREAM, size, 0.0, began, latencies, planned=len(latencies))
        return latencies

    def measure(self, sizes: Sequence[int], bounds_ms: Sequence[float]) -> None:
        """Measure SingleStream at each batch size, ascending, then Server if there are bounds."""
        stop_ns = STOP_WINDOWS * self._window_s * 1e9
        latencies: dict[int, list[int]] = {}
        for size in sizes:
            last = max(latencies, default=0)
            if last and FEWEST_REQUESTS * float(np.median(latencies[last])) * size / last > stop_ns:
                self._warn(f"skipped batch sizes from {size}: a request would take too long.")
                break
            latencies[size] = self.single_stream(size)
        if bounds_ms:
            medians = {size: float(np.median(each)) for size, each in latencies.items()}
            single_ms = float(np.percentile(latencies[min(latencies)], 99)) / 1e6
            self.search(bounds_ms, medians, single_ms)

    def search(self, bounds_ms: Sequence[float], medians: Mapping[int, float], single_ms: float) -> None:
        """Find the largest rate within the tightest bound that allows a useful rate.

        A bound that only isolated requests meet is not useful: as soon as two overlap, one is late.

        Args:
            medians: median latency by batch size, in nanoseconds.
            single_ms: 99th percentile latency of the smallest batch size.
        """
        possible = [bound for bound in sorted(bounds_ms) if bound > single_ms]
        if not possible:
            self._warn(f"a single request takes {single_ms:.3g} ms, longer than every latency bound.")
        for bound_ms in possible:
            sizes = sizes_within(medians, bound_ms)
            peak = max(size / medians[size] * 1e9 for size in sizes)
            if self.largest(sizes, peak, bound_ms) >= USEFUL_SHARE * peak:
                break

    def largest(self, sizes: Sequence[int], peak: float, bound_ms: float) -> float:
        """Bisect between 0 and `peak` for the largest rate within the bound, samples/s; 0 if none is.

        Stops at rates too low for the minimum number of requests within a series.
        """
        low, high = 0.0, peak
        for probe in range(PROBES):
            rate = (low + high) / 2
            if rate * LONGEST_PROBE_WINDOWS * self._window_s < MIN_SERVER_REQUESTS:
                break
            low, high = (rate, high) if self.offer(sizes, rate, bound_ms, probe) else (low, rate)
        return low

    def offer(self, sizes: Sequence[int], rate: float, bound_ms: float, probe: int) -> bool:
        """Offer `rate` samples/s; return whether they meet the bound, stopping early once it is missed."""
        lasts_s = max(PROBE_WINDOWS * self._window_s, LASTS_BOUNDS * bound_ms / 1e3)
        lasts_s = min(lasts_s, LONGEST_PROBE_WINDOWS * self._window_s)
        planned = min(max(round(rate * lasts_s), MIN_SERVER_REQUESTS), MAX_SERVER_REQUESTS)
        random = np.random.default_rng((self._job.spec.seed, probe))
        began = time.monotonic_ns()
        due = began + np.cumsum(random.exponential(1e9 / rate, planned)).astype(np.int64)
        latencies: list[int] = []
        late = served = 0
        while served < planned and late <= MAX_LATE_SHARE * planned:
            _wait_until(int(due[served]))
            waiting = int(np.searchsorted(due, time.monotonic_ns(), side="right")) - served
            count = min(waiting, sizes[-1])
            # Rounded up to a compiled batch size.
            self._serve(self._pool[: next(size for size in sizes if size >= count)])
            done = time.monotonic_ns()
            own = (done - due[served : served + count]).tolist()
            latencies += own
            late += sum(latency > bound_ms * 1e6 for latency in own)
            served += count
        self._write(SERVER, sizes[-1], rate, began, latencies, planned=planned)
        return late <= MAX_LATE_SHARE * planned

    def _warn(self, text: str) -> None:
        self._job.events.warning(f"{self._job.variant}: {text}")

    def _write(
        self, scenario: str, batch_size: int, rate: float, began: int, latencies: list[int], *, planned: int
    ) -> None:
        self._job.events.write(
            "requests", variant=self._job.variant, scenario=scenario, batch_size=batch_size, rate_per_s=rate,
            planned=planned, start_ns=began, end_ns=time.monotonic_ns(), latency_ns=latencies,
        )  # fmt: skip


def sizes_within(medians: Mapping[int, float], bound_ms: float) -> tuple[int, ...]:
    """Return the batch sizes of which two requests fit into a bound, ascending; always at least one.

    A sample that arrives just after a batch has started waits for that batch and then for its own.

    Args:
        medians: median latency by batch size, in nanoseconds.
    """
    smallest, *others = sorted(medians)
    return (smallest, *(size for size in others if 2 * medians[size] <= bound_ms * 1e6))


def _wait_until(instant_ns: int) -> None:
    while (left := instant_ns - time.monotonic_ns()) > 0:
        if left > _SPIN_NS:
            time.sleep((left - _SPIN_NS) / 1e9)
