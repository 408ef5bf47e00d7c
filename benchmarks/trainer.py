"""A container of ours that trains one leg of a workload without end, for benchmarks that watch it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from benchmarks.settings import Settings
from harness.bench import Options, resolve
from harness.cli.app import places
from harness.engines import Container
from harness.model.run import Gpu
from harness.progress import Silent
from harness.session import prepare
from harness.store import TrialFolder
from workloads.protocol import AS_WRITTEN, MODEL_ONLY

# More windows than fit into any benchmark: the container is killed, not waited for.
ENDLESS = 1_000_000
# What shows a sampler's disturbance best: many short steps on the host, or a card kept busy.
LEGS = {"cifar100-mlp": AS_WRITTEN, "resnet50": MODEL_ONLY}


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """A running container, the folder that it writes to, and the card that it runs on."""

    container: Container
    folder: TrialFolder
    leg: str
    gpu: Gpu | None


def leg_of(settings: Settings) -> str:
    """Return the leg that is run."""
    return settings.leg or LEGS.get(settings.workload, AS_WRITTEN)


@contextmanager
def training(settings: Settings, window_s: float) -> Iterator[Training]:
    """Yield a container that measures window after window of `window_s` seconds."""
    leg = leg_of(settings)
    options = Options(
        engine=settings.engine,
        device=settings.device,
        workloads=(settings.workload,),
        images=settings.images,
        legs=leg,
        trials=1,
        out=settings.work / "runs",
    )
    resolved = resolve(options)
    prepared = prepare(resolved, places(), Silent())
    container: Container | None = None
    try:
        job = prepared.jobs[0]
        spec = replace(job.spec, windows=ENDLESS, window_s=window_s)
        folder = prepared.folder.open_trial(job.planned, spec)
        container = prepared.engine.start(replace(job.container, out=folder.out))
        gpu = resolved.gpus[job.planned.gpus[0]] if job.planned.gpus else None
        yield Training(container=container, folder=folder, leg=leg, gpu=gpu)
    finally:
        if container is not None:
            container.kill()
            container.remove()
        prepared.engine.close()
        shutil.rmtree(prepared.folder.path, ignore_errors=True)
