"""Whenever a run is killed, no finished trial is lost, nothing keeps running, and the next run finishes it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.engines.container_settings import RUN
from harness.engines.docker import DockerEngine
from harness.errors import Interrupted
from harness.model.platform import ImageInfo
from harness.model.run import Status
from harness.run.store import RunFolder, read_run
from tests.faults.injecting import ALL
from tests.faults.measured_run import PLANNED, ROOT

pytestmark = pytest.mark.docker

KILLS = round(ALL * 0.1) if ALL else 20
IN_A_ROUND = 10
PATIENCE_S = 240.0
# A busy engine still starts what it was asked to start, and takes its time; the container then ends at once.
ENGINE_S = 40.0


def start(path: Path, image: str, run_id: str) -> subprocess.Popen[str]:
    """Start a run and wait until it handles signals."""
    command = [sys.executable, "-m", "tests.faults.measured_run", path, image, run_id]
    process = subprocess.Popen(
        ["env", "--default-signal=INT", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(path.parent / "tmp")},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("seed", range(max(1, KILLS // IN_A_ROUND)))
def test_kills_at_random_moments(
    tmp_path: Path, engine: DockerEngine, base_image: ImageInfo, seed: int
) -> None:
    (tmp_path / "tmp").mkdir()
    path, run_id = tmp_path / "run", f"faults-{os.getpid()}-{seed}"
    ours = {"label": [f"{RUN}={run_id}"]}
    chance = random.Random(seed)
    kept: frozenset[str] = frozenset()
    outlived = 0
    for kill in range(IN_A_ROUND):
        if (path / "manifest.json").exists() and not (path / "plan.json").exists():
            path = tmp_path / f"run-{kill}"  # killed before there was a plan: nothing to go on with
        process = start(path, base_image.reference, run_id)
        time.sleep(chance.uniform(0.0, 2.5))
        number = chance.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM))
        process.send_signal(number)
        _, printed = process.communicate(timeout=PATIENCE_S)
        assert "Traceback" not in printed
        before, kept = kept, RunFolder(path).finished() if (path / "plan.json").exists() else frozenset()
        # A signal that comes when all is done, while Python itself ends, ends it as it ends any process.
        done = {-number} if len(kept) == len(PLANNED) else set()
        assert process.returncode in {0, -signal.SIGKILL, Interrupted.exit_code} | done, printed
        assert before <= kept, "a finished trial is lost"
        end = time.monotonic() + ENGINE_S
        # Seldom the engine goes on listing what it was just asked to start: then the next run has to remove it.
        while (left := engine.client.api.containers(filters=ours)) and time.monotonic() < end:
            time.sleep(0.1)
        outlived += bool(left)
        if len(kept) == len(PLANNED):
            path, kept = tmp_path / f"more-{kill}", frozenset()
    _, printed = (last := start(path, base_image.reference, run_id)).communicate(timeout=PATIENCE_S)
    assert (last.returncode, printed) == (0, "")
    assert [trial.status for trial in read_run(path).trials] == [Status.OK] * len(PLANNED)
    assert engine.client.api.containers(all=True, filters=ours) == []
    assert outlived <= 1, "containers outlive their harness"
    assert list((tmp_path / "tmp").iterdir()) == []
    assert list(path.rglob("*.partial")) == []
