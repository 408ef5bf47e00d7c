"""When harness or engine end in the middle of a trial, nothing keeps running and nobody else's goes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from docker.errors import NotFound

from harness.engines.calls import remove_container
from harness.engines.container_settings import OWNER
from harness.engines.docker import DockerEngine
from harness.engines.owner import current_owner, start_ticks
from harness.errors import EngineError
from tests.docker.conftest import BASE
from tests.docker.unix_proxy import engine_behind_a_door
from tests.endtoend import wait_until

pytestmark = pytest.mark.docker

HARNESS = """
import sys, time
from pathlib import Path
from harness.engines import ContainerSpec
from harness.engines.docker import DockerEngine
from harness.model.platform import ImageInfo
image = ImageInfo(target="cpu", reference=sys.argv[1], digest="", base="", lock_sha256="")
engine = DockerEngine()
engine.connect()
container = engine.start(ContainerSpec(
    image=image, command=("sh", "-c", "trap '' HUP TERM; setsid sleep 1000 & sleep 1000"), environment={},
    out=Path(sys.argv[2]), mounts=(), trial_id="t", run_id="r"))
print(container.id, container.pid, flush=True)
time.sleep(1000)
"""


def test_killed_harness_leaves_nothing_running_and_the_next_one_clears_up(engine, make_spec):
    harness = subprocess.Popen(
        [sys.executable, "-c", HARNESS, BASE, make_spec("true").out], stdout=subprocess.PIPE, text=True
    )
    assert harness.stdout
    identity, pid = harness.stdout.readline().split()
    assert Path(f"/proc/{pid}").exists()
    harness.kill()
    harness.wait()
    # Nobody acts here: the container notices by itself.
    assert engine.client.api.wait(identity)["StatusCode"] == 137
    assert not Path(f"/proc/{pid}").exists()
    assert engine.remove_stale() >= 1
    with pytest.raises(NotFound):
        engine.client.api.inspect_container(identity)


def test_only_what_belongs_to_ended_harnesses_is_stale(engine):
    here = current_owner()
    ended = subprocess.Popen(["sleep", "1000"])
    gone = here._replace(pid=str(ended.pid), started=start_ticks(str(ended.pid)))
    ended.kill()
    ended.wait()
    alive = subprocess.Popen(["sleep", "1000"])
    owners = {
        "gone": gone,
        "earlier boot": here._replace(boot="another"),
        "id given to another process": here._replace(pid=str(alive.pid), started="1"),
        "alive": here._replace(pid=str(alive.pid), started=start_ticks(str(alive.pid))),
        "another pid namespace": gone._replace(pid_namespace="pid:[1]"),
        "this": here,
    }
    api = engine.client.api
    made = {
        name: api.create_container(BASE, ["true"], labels={OWNER: str(owner)})["Id"]
        for name, owner in owners.items()
    }
    made["not ours"] = api.create_container(BASE, ["true"], labels={"com.example": "x"})["Id"]
    try:
        engine.remove_stale()
        there = {entry["Id"] for entry in api.containers(all=True)}
        assert {name for name, identity in made.items() if identity in there} == {
            "alive",
            "another pid namespace",
            "this",
            "not ours",
        }
    finally:
        alive.kill()
        alive.wait()
        for identity in made.values():
            try:
                api.remove_container(identity, force=True)
            except NotFound:
                continue


def test_a_lost_engine_is_an_error_and_its_container_ends(engine, make_spec):
    with engine_behind_a_door() as (url, door):
        lost = DockerEngine({"DOCKER_HOST": url})
        lost.connect()
        spec = make_spec("sleep", "1000")
        container = lost.start(spec)
        pid = container.pid
        assert container.poll() is None
        door.kill()
        with pytest.raises(EngineError, match="stopped answering"):
            while container.poll() is None:
                time.sleep(0.01)
        with pytest.raises(EngineError, match="stopped answering"):
            container.remove()
        wait_until(lambda: not Path(f"/proc/{pid}").exists())
        assert spec.out.stat().st_uid == os.getuid()
        lost.close()
    remove_container(engine.client, container.id)
