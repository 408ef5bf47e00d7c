"""A container of ours that trains the CIFAR-100 MLP as written, for benchmarks that watch it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from harness.bench import Options, resolve
from harness.cli.app import places
from harness.engines import Container, Engine
from harness.progress import Silent
from harness.session import prepare
from harness.store import TrialFolder

WORKLOAD = "cifar100-mlp"


@contextmanager
def training(work: Path, windows: int, window_s: float) -> Iterator[tuple[Container, TrialFolder, Engine]]:
    """Yield a running container that measures `windows` windows of the as-written leg."""
    options = Options(
        engine="docker", device="cpu", workloads=(WORKLOAD,), legs="as-written", trials=1, out=work / "runs"
    )
    resolved = resolve(options)
    prepared = prepare(resolved, places(), Silent())
    job = prepared.jobs[0]
    spec = replace(job.spec, windows=windows, window_s=window_s)
    folder = prepared.folder.open_trial(job.planned, spec)
    container = prepared.engine.start(replace(job.container, out=folder.out))
    try:
        yield container, folder, prepared.engine
    finally:
        container.kill()
        container.remove()
        prepared.engine.close()
        shutil.rmtree(prepared.folder.path, ignore_errors=True)
