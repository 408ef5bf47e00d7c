"""Send requests to a model by MLPerf Inference's scenarios: SingleStream at each batch size, and Server.

SingleStream: one request after the other, each waited for. Server: single samples come at random instants (a
Poisson process) that are fixed beforehand, whatever the server manages; a latency counts from the instant at
which the sample was to come, so that a server that falls behind cannot hide it. One request runs at a time,
with all samples that have come by then, up to the largest batch of which two fit into the bound: the one that
runs when a sample comes, and its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from workloads.job import Job
from workloads.protocol import SERVER, SINGLE_STREAM

# A 99th percentile needs at least a hundred requests; a slow device is given less, and no p99 then.
REQUESTS = 200
FEWEST_REQUESTS = 10
SERVER_REQUESTS = (100, 20_000)
PROBES = 5
# A server that is only just too slow falls behind little by little: a series lasts so many times the bound.
LASTS_BOUNDS = 20
# Budgets, in measured windows of the profile.
BATCH_WINDOWS, STOP_WINDOWS, PROBE_WINDOWS, LONGEST_PROBE_WINDOWS = 2.0, 20.0, 4.0, 30.0
# Of what batches back to back make, a rate worth reporting.
USEFUL_SHARE = 0.2
LATE_SHARE = 0.01  # the bound holds for the 99th percentile
_SPIN_NS = 200_000  # sleeping is not exact enough for the last of a wait

# A batch in host memory -> None, when its predictions are in host memory.
Serve = Callable[[Any], None]


class Client:
    """Sends requests to one variant and writes their latencies as events.

    Args:
        pool: samples in host memory, as many as the largest batch.
    """

    def __init__(self, job: Job, serve: Serve, pool: Any) -> None:
        self._job = job
        self._serve = serve
        self._pool = pool
        self._window_s = max(job.spec.window_s, 0.1)

    def single_stream(self, size: int) -> list[int]:
        """Time requests of one batch; return their latencies in nanoseconds."""
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
        """Measure the latency at each batch size, ascending, then the server where there are bounds."""
        stop_ns = STOP_WINDOWS * self._window_s * 1e9
        latencies: dict[int, list[int]] = {}
        for size in sizes:
            last = max(latencies, default=0)
            if last and FEWEST_REQUESTS * float(np.median(latencies[last])) * size / last > stop_ns:
                self._warn(f"batches from {size} on were skipped: a request would take too long.")
                break
            latencies[size] = self.single_stream(size)
        if bounds_ms:
            medians = {size: float(np.median(each)) for size, each in latencies.items()}
            alone_ms = float(np.percentile(latencies[min(latencies)], 99)) / 1e6
            self.search(bounds_ms, medians, alone_ms)

    def search(self, bounds_ms: Sequence[float], medians: Mapping[int, float], alone_ms: float) -> None:
        """Look for the largest rate that keeps to a bound: the least one to which a useful rate keeps.

        A bound that only requests by themselves keep to tells little: two that meet are late already.

        Args:
            medians: of a request of each batch size, in nanoseconds.
            alone_ms: what a request of the least size takes at most, but for one in a hundred.
        """
        possible = [bound for bound in sorted(bounds_ms) if bound > alone_ms]
        if not possible:
            self._warn(f"a request alone takes {alone_ms:.3g} ms, longer than every latency bound.")
        for bound_ms in possible:
            sizes = sizes_within(medians, bound_ms)
            most = max(size / medians[size] * 1e9 for size in sizes)
            if self.largest(sizes, most, bound_ms) >= USEFUL_SHARE * most:
                break

    def largest(self, sizes: Sequence[int], most: float, bound_ms: float) -> float:
        """Halve between 0 and `most`; return the largest rate within the bound, samples/s, or 0.

        A rate of which the fewest requests would take longer than a series may last is not asked for.
        """
        low, high = 0.0, most
        for probe in range(PROBES):
            rate = (low + high) / 2
            if rate * LONGEST_PROBE_WINDOWS * self._window_s < SERVER_REQUESTS[0]:
                break
            low, high = (rate, high) if self.offer(sizes, rate, bound_ms, probe) else (low, rate)
        return low

    def offer(self, sizes: Sequence[int], rate: float, bound_ms: float, probe: int) -> bool:
        """Offer samples at `rate` a second; return whether they keep to the bound, and stop once it is lost."""
        least, most = SERVER_REQUESTS
        lasts_s = max(PROBE_WINDOWS * self._window_s, LASTS_BOUNDS * bound_ms / 1e3)
        lasts_s = min(lasts_s, LONGEST_PROBE_WINDOWS * self._window_s)
        planned = min(max(round(rate * lasts_s), least), most)
        random = np.random.default_rng((self._job.spec.seed, probe))
        began = time.monotonic_ns()
        due = began + np.cumsum(random.exponential(1e9 / rate, planned)).astype(np.int64)
        latencies: list[int] = []
        late = served = 0
        while served < planned and late <= LATE_SHARE * planned:
            _wait_until(int(due[served]))
            waiting = int(np.searchsorted(due, time.monotonic_ns(), side="right")) - served
            count = min(waiting, sizes[-1])
            # Compiled shapes are few: the rest of the batch is filled up.
            self._serve(self._pool[: next(size for size in sizes if size >= count)])
            done = time.monotonic_ns()
            own = (done - due[served : served + count]).tolist()
            latencies += own
            late += sum(latency > bound_ms * 1e6 for latency in own)
            served += count
        self._write(SERVER, sizes[-1], rate, began, latencies, planned=planned)
        return late <= LATE_SHARE * planned

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
    """Return the batch sizes of which two requests fit into a bound, in ascending order; one at least.

    A sample that comes just after a batch began waits for that one, and then takes the time of its own.

    Args:
        medians: of a request of each size, in nanoseconds.
    """
    least, *others = sorted(medians)
    return (least, *(size for size in others if 2 * medians[size] <= bound_ms * 1e6))


def _wait_until(instant_ns: int) -> None:
    while (left := instant_ns - time.monotonic_ns()) > 0:
        if left > _SPIN_NS:
            time.sleep((left - _SPIN_NS) / 1e9)
