import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.engines import docker, docker_client
from harness.engines.container_settings import RUN
from harness.engines.docker import DockerEngine
from harness.engines.docker_client import remove_container
from harness.errors import EngineError, Interrupted
from harness.model.run import Status
from harness.run.store import RunFolder, read_run
from tests.docker.conftest import make_spec
from tests.docker.unix_proxy import engine_proxy
from tests.faults.injecting import ALL
from tests.faults.measured_run import PLANNED, ROOT
from tests.test_engines_local import wait_until_ended

pytestmark = pytest.mark.docker

__all__ = ["make_spec"]
REQUEST_S = 3


def test_requests_to_a_silent_engine_share_a_deadline(make_spec, monkeypatch):
    monkeypatch.setattr(docker, "_REQUEST_S", REQUEST_S)
    monkeypatch.setattr(docker_client, "_SILENT_S", 0.5)
    with engine_proxy() as (url, proxy):
        engine = DockerEngine.connect({"DOCKER_HOST": url})
        container = engine.start(make_spec("sleep", "1000"))
        proxy.send_signal(signal.SIGSTOP)
        begun = time.monotonic()
        for call in (container.kill, container.log, container.kill, container.remove):
            with pytest.raises(EngineError):
                call()
        assert not engine.answers()
        # The others wait half a second each.
        assert time.monotonic() - begun < REQUEST_S + 4
        wait_until_ended(container.pid)
        proxy.send_signal(signal.SIGCONT)
    engine = DockerEngine.connect()
    remove_container(engine.client, container.id)
    engine.close()


KILLS_PER_TEST = 8 if ALL else 3
KILLS = round(ALL * 0.05) if ALL else KILLS_PER_TEST
TIMEOUT_S = 240.0
# A busy engine may still start a requested container after the kill; that container ends at once.
ENGINE_S = 40.0


def start(path: Path, image: str, run_id: str) -> subprocess.Popen[str]:
    """Start a run and wait until it handles signals."""
    command = [sys.executable, "-m", "tests.faults.measured_run", path, image, run_id]
    environment = {**os.environ, "TMPDIR": str(path.parent / "tmp")}
    process = subprocess.Popen(
        ["env", "--default-signal=INT", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        cwd=ROOT, env=environment,
    )  # fmt: skip
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("seed", range(max(1, KILLS // KILLS_PER_TEST)))
def test_kills_at_random_moments(tmp_path, engine, base_image, seed):
    (tmp_path / "tmp").mkdir()
    path, run_id = tmp_path / "run", f"faults-{os.getpid()}-{seed}"
    own_containers = {"label": [f"{RUN}={run_id}"]}
    chance = random.Random(seed)
    finished: frozenset[str] = frozenset()
    survivors = 0
    for kill in range(KILLS_PER_TEST):
        if path.exists() and not RunFolder(path).exists():
            path = tmp_path / f"run-{kill}"  # killed before it was a run, so it cannot be resumed
        process = start(path, base_image.reference, run_id)
        time.sleep(chance.uniform(0.0, 2.5))
        number = chance.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM))
        process.send_signal(number)
        _, printed = process.communicate(timeout=TIMEOUT_S)
        assert "Traceback" not in printed
        before = finished
        trials = RunFolder(path).trials(PLANNED)
        finished = frozenset(trial.id for trial in trials if trial.status is Status.OK)
        # A signal that arrives while Python shuts down has its default effect. Python ends by SIGINT, too, after any
        # signal that interrupted code which exec runs, such as what makes a data class.
        at_exit = {-number} if len(finished) == len(PLANNED) else set()
        if "Interrupted" in printed:
            at_exit.add(-signal.SIGINT)
        assert process.returncode in {0, -signal.SIGKILL, Interrupted.exit_code} | at_exit, printed
        assert before <= finished, "a finished trial is lost"
        deadline = time.monotonic() + ENGINE_S
        # In rare cases the engine still lists the container it was starting; the next run must remove it.
        while (left := engine.client.api.containers(filters=own_containers)) and time.monotonic() < deadline:
            time.sleep(0.1)
        survivors += bool(left)
        if len(finished) == len(PLANNED):
            path, finished = tmp_path / f"more-{kill}", frozenset()
    if path.exists() and not RunFolder(path).exists():
        path = tmp_path / "last"
    _, printed = (last := start(path, base_image.reference, run_id)).communicate(timeout=TIMEOUT_S)
    assert (last.returncode, printed) == (0, "")
    assert [trial.status for trial in read_run(path).trials] == [Status.OK] * len(PLANNED)
    assert engine.client.api.containers(all=True, filters=own_containers) == []
    assert survivors <= 1, "containers outlive their harness"
    assert list((tmp_path / "tmp").iterdir()) == []
    assert list(path.rglob("*.partial")) == []
