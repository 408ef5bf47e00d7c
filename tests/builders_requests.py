"""Simulated inference requests on a slow CPU and a fast GPU."""

from dataclasses import replace

import numpy as np

from harness.model.run import RequestTimes, Run, Trial
from harness.model.workload import Published
from tests import builders
from workloads.protocol import BASELINE, SERVER, SINGLE_STREAM, Requests

BATCHES = (1, 4, 16)
# Milliseconds (per request, per sample).
COSTS = {"cpu": (8.0, 30.0), "gpu0": (1.5, 0.2)}
RATES = {"cpu": (5.0, 12.0, 20.0), "gpu0": (400.0, 900.0, 1300.0)}
START_NS = 2_000_000_000


def single(variant: str, batch: int, milliseconds: float, count: int = 200, seed: int = 0) -> RequestTimes:
    """Return sequential requests of one batch size with latencies spread by 10 %."""
    random = np.random.default_rng((batch, seed))
    latency = (milliseconds * 1e6 * (1 + 0.1 * random.random(count))).astype(np.int64)
    return RequestTimes(
        variant=variant, scenario=SINGLE_STREAM, batch_size=batch, rate_per_s=0.0, planned=count,
        start_ns=START_NS, end_ns=START_NS + int(latency.sum()), latency_ns=latency,
    )  # fmt: skip


def offered(variant: str, rate: float, milliseconds: list[float], planned: int = 0) -> RequestTimes:
    latency = (np.asarray(milliseconds) * 1e6).astype(np.int64)
    return RequestTimes(
        variant=variant, scenario=SERVER, batch_size=max(BATCHES), rate_per_s=rate, planned=planned or
        len(latency), start_ns=START_NS, end_ns=START_NS + int(len(latency) / rate * 1e9), latency_ns=latency,
    )  # fmt: skip


def serving_run(trials: int = 3) -> Run:
    """Return an inference run on the CPU and one GPU; the CPU cannot meet the 15 ms bound."""
    run = builders.gpu_run(trials=trials)
    declared = replace(
        run.workloads[0],
        requests=Requests(batch_sizes=BATCHES, bounds_ms=(15.0, 100.0)),
        published=(
            Published(source="An article", system="3 nodes over 5", device="gpu", value=8.04,
                      unit="requests ratio"),
        ),
    )  # fmt: skip
    return replace(run, workloads=(declared,), trials=tuple(_with_requests(trial) for trial in run.trials))


def _with_requests(trial: Trial) -> Trial:
    per_request, per_sample = COSTS[trial.device]
    low, middle, high = RATES[trial.device]
    fast = [per_request + per_sample] * 200
    return replace(
        trial,
        requests=(
            *(single(BASELINE, size, per_request + per_sample * size, seed=trial.index) for size in BATCHES),
            offered(BASELINE, low, fast),
            offered(BASELINE, middle + trial.index, [*fast[:198], 90.0, 90.0]),
            # Stopped after five late requests.
            offered(BASELINE, high, [*fast[:50], *[2000.0] * 5], planned=400),
        ),
    )
