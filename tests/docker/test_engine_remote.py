"""Engines that are reached over a network: folders are carried there and events back."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from harness.engines import CUDA_CACHE_DIR, DATA_DIR, Mount
from harness.engines.docker import DockerEngine
from tests.docker.conftest import wait_for
from tests.docker.sshd import ssh_server
from tests.docker.tcp_proxy import tcp_proxy

pytestmark = pytest.mark.docker

SOCKET = "/var/run/docker.sock"
WORK = """
import os, time
print(os.getuid(), open("/tfbench/data/sub/x").read(), open("/tfbench/out/spec.json").read())
for number in range(40):
    with open("/tfbench/out/events.jsonl", "a") as file: file.write(f"{number}\\n")
    if os.path.exists("/tfbench/out/never"): break
    time.sleep(0.1)
os.symlink("/etc/passwd", "/tfbench/out/link")
try: open("/tfbench/data/new", "w")
except OSError as error: print(error.strerror)
"""


def carried_run(engine: DockerEngine, make_spec, tmp_path: Path) -> None:
    data = tmp_path / "data"
    (data / "sub").mkdir(parents=True)
    (data / "sub/x").write_text("payload")
    spec = make_spec("python3", "-c", WORK, mounts=(Mount(container=DATA_DIR, host=data),))
    (spec.out / "spec.json").write_text("{}")
    events = spec.out / "events.jsonl"
    container = engine.start(spec)
    assert container.pid is None
    seen = set()
    while (exit_ := container.poll()) is None:
        text = events.read_text() if events.exists() else ""
        assert text == "".join(f"{number}\n" for number in range(len(text.splitlines())))
        seen.add(len(text.splitlines()))
        time.sleep(0.05)
    log = container.log()
    assert exit_.code == 0, log
    assert log == "10001 payload {}\nRead-only file system\n"
    assert any(0 < count < 40 for count in seen)
    assert len(events.read_text().splitlines()) == 40
    assert sorted(path.name for path in spec.out.iterdir()) == ["events.jsonl", "spec.json"]
    container.remove()
    own = {"label": [f"tfbench.pid={os.getpid()}"]}
    engine_client = engine.client
    assert engine_client.containers.list(all=True, filters=own) == []
    # The data stays for the next trial, and goes with the engine.
    kept = engine_client.volumes.list(filters=own)
    assert len(kept) == 1
    engine.close()
    checker = DockerEngine()
    checker.connect()
    assert checker.client.volumes.list(filters=own) == []
    checker.close()


def test_remote_over_tcp(base_image, make_spec, tmp_path):
    with tcp_proxy(SOCKET) as url:
        engine = DockerEngine({"DOCKER_HOST": url}, remote=True)
        assert engine.connect().remote
        carried_run(engine, make_spec, tmp_path)


def printed(engine: DockerEngine, spec) -> str:
    """Run a trial and return what it printed."""
    container = engine.start(spec)
    wait_for(container)
    text = container.log()
    container.remove()
    return text


def test_a_cache_stays_on_the_engine_from_trial_to_trial(base_image, make_spec, tmp_path):
    cache = Mount(
        container=CUDA_CACHE_DIR, host=tmp_path, volume=f"tfbench-test-{os.getpid()}", read_only=False
    )
    append = (
        f"open('{CUDA_CACHE_DIR}/kernels', 'a').write('x'); print(open('{CUDA_CACHE_DIR}/kernels').read())"
    )
    spec = make_spec("python3", "-c", append, mounts=(cache,))
    said = []
    with tcp_proxy(SOCKET) as url:
        # Twice on one engine, and once by a harness that comes later.
        for trials in (2, 1):
            engine = DockerEngine({"DOCKER_HOST": url}, remote=True)
            engine.connect()
            said += [printed(engine, spec) for _ in range(trials)]
            engine.remove_stale()
            engine.close()
    checker = DockerEngine()
    checker.connect()
    checker.client.volumes.get(cache.volume).remove()
    checker.close()
    assert said == ["x\n", "xx\n", "xxx\n"]
    assert list(tmp_path.glob("kernels")) == [], "the folder here is another machine's"


def test_engine_of_this_host_behind_tcp_is_not_remote(base_image, make_spec):
    with tcp_proxy(SOCKET) as url:
        engine = DockerEngine({"DOCKER_HOST": url})
        assert not engine.connect().remote
        container = engine.start(make_spec("sleep", "100"))
        assert Path(f"/proc/{container.pid}").exists()
        container.remove()
        engine.close()


def test_remote_over_ssh(base_image, make_spec, tmp_path, monkeypatch):
    with ssh_server(tmp_path / "ssh") as server:
        # OpenSSH finds the user's settings by the account, not by HOME: the wrapper gives it the test's.
        wrapper = tmp_path / "bin/ssh"
        wrapper.parent.mkdir()
        wrapper.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {server.home}/.ssh/config "$@"\n')
        wrapper.chmod(0o755)
        monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
        engine = DockerEngine({"DOCKER_HOST": "ssh://bench-host"}, remote=True)
        assert engine.connect().remote
        carried_run(engine, make_spec, tmp_path)
