"""Ask a model as its users would: MLPerf Inference's SingleStream at each batch size, and Server.

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


def single_stream(job: Job, variant: str, serve: Serve, batch: Any) -> list[int]:
    """Time requests of one batch, write them as an event, return their latencies in nanoseconds."""
    budget_ns = max(BATCH_WINDOWS * job.spec.window_s, 0.1) * 1e9
    latencies: list[int] = []
    serve(batch)  # traces and compiles
    began = time.monotonic_ns()
    while len(latencies) < FEWEST_REQUESTS or (
        len(latencies) < REQUESTS and time.monotonic_ns() - began < budget_ns
    ):
        start = time.monotonic_ns()
        serve(batch)
        latencies.append(time.monotonic_ns() - start)
    _write(job, variant, SINGLE_STREAM, len(batch), began, latencies)
    return latencies


def measure(job: Job, variant: str, serve: Serve, pool: Any, sizes: Sequence[int]) -> None:
    """Measure what the workload declares in `requests`: latency at each batch size, then the server.

    Args:
        pool: samples in host memory, as many as the largest batch.
        sizes: ascending.
    """
    wanted = job.workload.requests
    assert wanted is not None
    stop_ns = max(STOP_WINDOWS * job.spec.window_s, 1.0) * 1e9
    medians: dict[int, float] = {}
    first: list[int] = []
    for size in sizes:
        if medians and FEWEST_REQUESTS * medians[max(medians)] * size / max(medians) > stop_ns:
            message = f"{variant}: batches from {size} on were skipped: a request would take too long."
            job.events.warning(message)
            break
        latencies = single_stream(job, variant, serve, pool[:size])
        first = first or latencies
        medians[size] = float(np.median(latencies))
    if wanted.bounds_ms and medians:
        _search(job, variant, serve, pool, medians, first)


def _search(
    job: Job, variant: str, serve: Serve, pool: Any, medians: Mapping[int, float], alone: Sequence[int]
) -> None:
    """Look for the largest rate that keeps to a bound: the least one to which a useful rate keeps.

    A bound that only requests by themselves keep to tells little: two that meet are late already.

    Args:
        medians: of a request of each batch size, in nanoseconds.
        alone: latencies of requests of the least size, likewise.
    """
    wanted = job.workload.requests
    assert wanted is not None
    least_ms = float(np.percentile(alone, 99)) / 1e6
    bounds_ms = [bound for bound in sorted(wanted.bounds_ms) if bound > least_ms]
    if not bounds_ms:
        message = f"{variant}: a request alone takes {least_ms:.3g} ms, longer than every latency bound."
        job.events.warning(message)
    for bound_ms in bounds_ms:
        most = _most(medians, sizes_within(medians, bound_ms))
        if _largest(job, variant, serve, pool, medians, bound_ms) >= USEFUL_SHARE * most:
            break


def _largest(
    job: Job, variant: str, serve: Serve, pool: Any, medians: Mapping[int, float], bound_ms: float
) -> float:
    """Halve between 0 and what the server can do at all; return the largest rate within the bound, or 0.

    A rate of which the fewest requests would take longer than a series may last is not asked for.
    """
    sizes = sizes_within(medians, bound_ms)
    low, high = 0.0, _most(medians, sizes)
    for probe in range(PROBES):
        rate = (low + high) / 2
        if rate * _longest_s(job) < SERVER_REQUESTS[0]:
            break
        planned, latencies, began = _offer(job, serve, pool, sizes, rate, bound_ms, probe)
        _write(job, variant, SERVER, max(sizes), began, latencies, rate=rate, planned=planned)
        late = sum(latency > bound_ms * 1e6 for latency in latencies) + planned - len(latencies)
        low, high = (rate, high) if late <= LATE_SHARE * planned else (low, rate)
    return low


def _most(medians: Mapping[int, float], sizes: Sequence[int]) -> float:
    """Return the samples a second that batches of the best of some sizes make, back to back."""
    return max(size / medians[size] * 1e9 for size in sizes)


def sizes_within(medians: Mapping[int, float], bound_ms: float) -> tuple[int, ...]:
    """Return the batch sizes of which two requests fit into a bound, in ascending order; one at least.

    A sample that comes just after a batch began waits for that one, and then takes the time of its own.

    Args:
        medians: of a request of each size, in nanoseconds.
    """
    least, *others = sorted(medians)
    return (least, *(size for size in others if 2 * medians[size] <= bound_ms * 1e6))


def _offer(
    job: Job, serve: Serve, pool: Any, sizes: Sequence[int], rate: float, bound_ms: float, probe: int
) -> tuple[int, list[int], int]:
    """Offer samples at `rate` a second; stop when so many were late that the bound is lost anyway.

    Returns:
        How many were planned, the latencies of those served in nanoseconds, and when it began.
    """
    least, most = SERVER_REQUESTS
    lasts_s = max(PROBE_WINDOWS * max(job.spec.window_s, 0.1), LASTS_BOUNDS * bound_ms / 1e3)
    planned = min(max(round(rate * min(lasts_s, _longest_s(job))), least), most)
    random = np.random.default_rng((job.spec.seed, probe))
    offsets_ns = np.cumsum(random.exponential(1e9 / rate, planned)).astype(np.int64)
    began = time.monotonic_ns()
    due = began + offsets_ns
    latencies: list[int] = []
    late = served = 0
    while served < planned and late <= LATE_SHARE * planned:
        _wait_until(int(due[served]))
        waiting = int(np.searchsorted(due, time.monotonic_ns(), side="right")) - served
        count = min(waiting, sizes[-1])
        # Compiled shapes are few: the rest of the batch is filled up.
        serve(pool[: next(size for size in sizes if size >= count)])
        done = time.monotonic_ns()
        own = (done - due[served : served + count]).tolist()
        latencies += own
        late += sum(latency > bound_ms * 1e6 for latency in own)
        served += count
    return planned, latencies, began


def _longest_s(job: Job) -> float:
    return LONGEST_PROBE_WINDOWS * max(job.spec.window_s, 0.1)


def _wait_until(instant_ns: int) -> None:
    while (left := instant_ns - time.monotonic_ns()) > 0:
        if left > _SPIN_NS:
            time.sleep((left - _SPIN_NS) / 1e9)


def _write(
    job: Job,
    variant: str,
    scenario: str,
    batch_size: int,
    began: int,
    latencies: list[int],
    rate: float = 0.0,
    planned: int = 0,
) -> None:
    job.events.write(
        "requests", variant=variant, scenario=scenario, batch_size=batch_size, rate_per_s=rate,
        planned=planned or len(latencies), start_ns=began, end_ns=time.monotonic_ns(), latency_ns=latencies,
    )  # fmt: skip
