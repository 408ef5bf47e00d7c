"""A container of ours that trains one variant of a workload without end, for benchmarks that watch it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from benchmarks.settings import Settings
from harness.cli.app import paths
from harness.engines import Container
from harness.model.options import Options
from harness.model.run import Gpu
from harness.progress import Silent
from harness.run.prepare import prepare
from harness.run.resolve import resolve
from harness.run.store import TrialFolder
from workloads.protocol import BASELINE, MODEL_ONLY

# More windows than fit into any benchmark: the container is killed, not waited for.
ENDLESS = 1_000_000
# What shows a sampler's disturbance best: many short steps on the host, or a GPU kept busy.
VARIANTS = {"cifar100-mlp": BASELINE, "resnet50": MODEL_ONLY}


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """A running container, the folder that it writes to, and the GPU that it runs on."""

    container: Container
    folder: TrialFolder
    variant: str
    gpu: Gpu | None


def variant_of(settings: Settings) -> str:
    """Return the variant that is run."""
    return settings.variant or VARIANTS.get(settings.workload, BASELINE)


@contextmanager
def training(settings: Settings, window_s: float) -> Iterator[Training]:
    """Yield a container that measures window after window of `window_s` seconds."""
    variant = variant_of(settings)
    options = Options(
        engine=settings.engine,
        device=settings.device,
        workloads=(settings.workload,),
        images=settings.images,
        variants=variant,
        trials=1,
        out=settings.work / "runs",
    )
    resolved = resolve(options)
    prepared = prepare(resolved, paths(), Silent())
    container: Container | None = None
    try:
        job = prepared.jobs[0]
        spec = replace(job.spec, windows=ENDLESS, window_s=window_s)
        folder = prepared.folder.open_trial(job.planned, spec)
        container = prepared.engine.start(replace(job.container, out=folder.out))
        gpu = resolved.gpus[job.planned.gpus[0]] if job.planned.gpus else None
        yield Training(container=container, folder=folder, variant=variant, gpu=gpu)
    finally:
        if container is not None:
            container.kill()
            container.remove()
        prepared.engine.close()
        shutil.rmtree(prepared.folder.path, ignore_errors=True)
