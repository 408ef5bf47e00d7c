"""Variants that drain the input pipeline with no model: all of it, its first stages, on few threads, by epoch."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

from workloads import loaders, pipeline, rewriting, variants
from workloads.job import Job
from workloads.protocol import (
    BUILD,
    CACHED_EPOCH,
    FIRST_EPOCH,
    INPUT_ONLY,
    STAGE_PREFIX,
    THREADS_PREFIX,
)
from workloads.stepwise import factor
from workloads.timing import Meter

# How long one call that drains the pipeline should take: short beside a window, long beside its own cost.
DRAIN_CALL_S = 0.02
# A cache that is to be read from is filled with so many batches, or as many as this time allows.
CACHED_BATCHES, CACHED_FILL_S = 32, 1.0


def drained(variant: str) -> bool:
    """Tell whether a variant is one of these."""
    return variant in (INPUT_ONLY, FIRST_EPOCH, CACHED_EPOCH) or variant.startswith(
        (STAGE_PREFIX, THREADS_PREFIX)
    )


def drain(job: Job, variant: str, params: Mapping[str, Any], meter: Meter) -> None:
    """Drain the pipeline, or a part of it, and count.

    Only input-only copies what it gets to the devices: the others show what the host can do.
    """
    began = meter.now()
    stage = pipeline.prefix_of(variant)
    if variant in (FIRST_EPOCH, CACHED_EPOCH):
        cached = _batches_to_cache(job, params)
        if not cached:
            job.events.needless(variant, "the pipeline has no cache")
            return
        replaced: Any = rewriting.caches_replaced(0 if variant == FIRST_EPOCH else cached)
    else:
        replaced = nullcontext()
    with replaced:
        dataset = _dataset(job, params, stage)
    batch = params["batch_size"] * len(job.devices)
    if loaders.is_loader(dataset):
        if variant.startswith(THREADS_PREFIX):
            job.events.needless(variant, "the loader is no tf.data pipeline")
        else:
            variants.drain_loader(job, meter, dataset, batch, began)
        return
    if variant.startswith(THREADS_PREFIX):
        dataset = pipeline.on_threads(dataset, factor(variant, THREADS_PREFIX))
    batched = not stage or job.train is not None or _batched(job, params, stage)
    if batched:
        pull = pipeline.drain(dataset, job.devices if variant == INPUT_ONLY else ())
    else:
        pull = pipeline.drain_samples(dataset)
    if variant == CACHED_EPOCH:
        pull(CACHED_BATCHES)
    meter.phase(BUILD, began)
    # Every worker drains a pipeline of its own, and the others' pace is taken to be this one's.
    _count(pull, max(1, job.spec.workers), meter)


def _count(pull: Callable[[int], int], workers: int, meter: Meter) -> None:
    meter.begin()
    count, going = 1, True
    while going:
        start = time.monotonic_ns()
        samples = pull(count)
        took = time.monotonic_ns() - start
        going = meter.tick(count, samples * workers, took)
        count = max(1, min(2 * count, round(count * DRAIN_CALL_S * 1e9 / took)))


def _dataset(job: Job, params: Mapping[str, Any], stage: str) -> Any:
    if job.train is not None or not stage:
        return pipeline.baseline(job, params, devices=len(job.devices))
    batch = params["batch_size"] * len(job.devices)
    return pipeline.assemble(job.stages({**params, "batch_size": batch}), stage)


def _batches_to_cache(job: Job, params: Mapping[str, Any]) -> int:
    """Return how many elements before the first cache make the batches to be cached; 0 without a cache."""
    names = [name for name, _ in job.stages(params)]
    for name in names:
        if rewriting.has_cache(_dataset(job, params, name)):
            batches = CACHED_BATCHES
            a_batch_ns = job.shared.step_ns.get(FIRST_EPOCH, 0.0)
            if a_batch_ns:
                batches = max(2, min(batches, round(CACHED_FILL_S * 1e9 / a_batch_ns)))
            return batches * (1 if _batched(job, params, name) else params["batch_size"] * job.replicas)
    return 0


def _batched(job: Job, params: Mapping[str, Any], stage: str) -> bool:
    names = [name for name, _ in job.stages(params)]
    return "batch" in names and names.index(stage) >= names.index("batch")
