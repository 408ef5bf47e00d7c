import json
import os
import stat
import subprocess
import threading
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from docker.errors import NotFound

from harness.engines import Exit, Mount
from harness.engines.container_settings import OWNER, RUN
from harness.engines.docker import DockerEngine
from harness.engines.docker_client import remove_container
from harness.engines.owner import current_owner, start_ticks
from harness.errors import EngineError
from harness.system.doctor_checks import run_to_end
from tests.docker.conftest import BASE, wait_for
from tests.docker.unix_proxy import engine_proxy

pytestmark = pytest.mark.docker

INSPECT = """
import json, os, pathlib
def writable(folder):
    try:
        pathlib.Path(folder, "probe").write_text("x")
        return True
    except OSError:
        return False
lines = open("/proc/self/status").read().splitlines()
status = dict(line.split(":\\t", 1) for line in lines if ":\\t" in line)
print(json.dumps({
    "uid": os.getuid(),
    "groups": os.getgroups(),
    "capabilities": [status[name].strip() for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")],
    "no_new_privileges": status["NoNewPrivs"].strip(),
    "seccomp": status["Seccomp"].strip(),
    "interfaces": os.listdir("/sys/class/net"),
    "writable": [folder for folder in ("/", "/etc", "/usr", "/var", "/tfbench/in", "/tfbench/out", "/tmp")
                 if writable(folder)],
    "home": os.environ["HOME"],
    "shm": os.statvfs("/dev/shm").f_blocks * os.statvfs("/dev/shm").f_frsize,
    "first": open("/proc/1/cmdline").read().split("\\0")[0],
    "cuda": os.environ["CUDA_VISIBLE_DEVICES"],
    "cpus": list(os.sched_getaffinity(0)),
    "devices": [name for name in os.listdir("/dev") if name.startswith(("nvidia", "vd", "kmsg", "mem"))],
}))
"""


def test_container_is_isolated(run_it, make_spec, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    mounts = (Mount(container="/tfbench/in", host=folder),)
    exit_, log = run_it(make_spec("python3", "-c", INSPECT, mounts=mounts, cpus="0"))
    assert exit_.code == 0, log
    observed = json.loads(log)
    assert observed["uid"] != 0
    assert 0 not in observed["groups"]
    assert {int(value, 16) for value in observed["capabilities"]} == {0}
    assert observed["no_new_privileges"] == "1"
    assert observed["seccomp"] == "2"
    assert observed["interfaces"] == ["lo"]
    assert observed["writable"] == ["/tfbench/out", "/tmp"]
    assert observed["home"] == "/tmp"
    assert observed["shm"] == 2**30
    assert observed["first"] == "python3"
    assert observed["cuda"] == "-1"
    assert observed["devices"] == []
    assert observed["cpus"] == [0]


def test_output_owner_and_mode_are_restored(engine, run_it, make_spec):
    code = "import os; os.mkdir('/tfbench/out/sub'); open('/tfbench/out/sub/events', 'w').write('e')"
    spec = make_spec("python3", "-c", code)
    before = spec.out.stat()
    exit_, log = run_it(spec)
    assert exit_.code == 0, log
    assert (spec.out / "sub/events").read_text() == "e"
    for path in (spec.out, spec.out / "sub", spec.out / "sub/events"):
        assert (path.stat().st_uid, path.stat().st_gid) == (os.getuid(), os.getgid())
        assert not path.stat().st_mode & stat.S_IWOTH
    assert spec.out.stat().st_mode == before.st_mode
    missing = replace(spec.image, reference="tfbench/none:0", digest="")
    with pytest.raises(EngineError, match=r"could not start trial a-trial: .*tfbench/none:0"):
        engine.start(make_spec("true", image=missing))
    assert spec.out.stat().st_uid == os.getuid()


@pytest.mark.parametrize(
    ("command", "code", "out_of_memory"),
    [
        ("exec python3 -c 'bytearray(400 << 20)'", 137, True),
        # A killed child counts even if the command continues.
        ("python3 -c 'bytearray(400 << 20)'; sleep 0.5; exit 0", 0, True),
    ],
)
def test_out_of_memory_is_detected(run_it, make_spec, command, code, out_of_memory):
    exit_, _ = run_it(make_spec("sh", "-c", command, memory_bytes=128 << 20))
    assert (exit_.code, exit_.out_of_memory) == (code, out_of_memory)


def test_process_limit(run_it, make_spec):
    bomb = (
        "import subprocess\nrunning = []\n"
        "try:\n while len(running) < 100: running.append(subprocess.Popen(['sleep', '60']))\n"
        "except OSError as error: print(len(running), error.strerror)"
    )
    exit_, log = run_it(make_spec("python3", "-c", bomb, pids=20))
    assert exit_.code == 0
    started, reason = log.strip().split(" ", 1)
    assert 10 < int(started) < 20
    assert reason == "Resource temporarily unavailable"


@pytest.mark.parametrize(
    ("command", "code", "logged"),
    [
        (("sh", "-c", "echo three; exit 3"), 3, "three\n"),
        (("sh", "-c", "kill -SEGV $$"), 139, ""),
        (("/nowhere/python",), 127, "tfbench: cannot run /nowhere/python: No such file or directory\n"),
        (("sh", "-c", "head -c 100000 /dev/zero | tr '\\0' x"), 0, "x" * 64 * 1024),
    ],
)
def test_exit_code_and_log(run_it, make_spec, command, code, logged):
    exit_, log = run_it(make_spec(*command))
    assert (exit_.code, exit_.out_of_memory, log) == (code, False, logged)


def test_kill_and_remove_are_idempotent(engine, make_spec):
    container = engine.start(make_spec("sh", "-c", "trap '' TERM; sleep 1000"))
    assert container.poll() is None
    assert Path(f"/proc/{container.pid}").exists()
    container.kill()
    assert container.poll() == Exit(code=137, out_of_memory=False)
    container.kill()
    container.remove()
    container.remove()
    container.kill()
    assert container.log() == ""
    with pytest.raises(NotFound):
        engine.client.api.inspect_container(container.id)
    container = engine.start(make_spec("sleep", "1000"))
    engine.client.api.remove_container(container.id, force=True)  # by another process
    assert wait_for(container) == Exit(code=137, out_of_memory=False, removed=True)
    container.remove()


def test_a_container_whose_creation_is_not_answered_is_removed(engine, make_spec):
    with engine_proxy(lost="/containers/create") as (address, _):
        through = DockerEngine.connect({"DOCKER_HOST": address})
        spec = make_spec("true", run_id="unanswered")
        with pytest.raises(EngineError):
            through.start(spec)
        through.close()
    assert engine.client.api.containers(all=True, filters={"label": f"{RUN}=unanswered"}) == []


def test_a_container_that_no_thread_can_wait_for_is_removed(engine, make_spec, monkeypatch):
    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    with pytest.raises(RuntimeError):
        engine.start(make_spec("sleep", "1000", run_id="unwatched"))
    assert engine.client.api.containers(all=True, filters={"label": f"{RUN}=unwatched"}) == []


@pytest.mark.parametrize("answer", ['{"StatusCode":"0"}', "{}", '{"StatusCode":99999999999999999999}'])
def test_an_exit_code_that_is_none_is_an_engine_error(make_spec, answer):
    with engine_proxy(lost="/wait", instead=answer) as (address, _):
        through = DockerEngine.connect({"DOCKER_HOST": address})
        container = through.start(make_spec("true"))
        with pytest.raises(EngineError):
            wait_for(container)
        container.remove()
        through.close()


def test_a_path_without_python_is_told(engine, make_spec):
    with pytest.raises(EngineError, match="python3") as raised:
        engine.start(make_spec("true", environment={"PATH": "/x"}))
    assert "--env PATH" in raised.value.hint


def test_proxies_of_dockers_configuration_reach_neither_images_nor_scripts(make_spec, tmp_path, monkeypatch):
    """Their passwords would stay in images, and on what a script prints."""
    proxies = {"default": {"httpProxy": "http://bob:correct-horse@127.0.0.1:9"}}
    (tmp_path / "config.json").write_text(json.dumps({"proxies": proxies}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with closing(DockerEngine.connect()) as engine:
        _, log = run_to_end(engine, make_spec("env"), 60)
    assert "PATH=" in log
    assert "http_proxy" not in log.lower()


def test_entry_point_of_image_is_ignored(engine, run_it, make_spec, base_image):
    container = engine.client.api.create_container(base_image.digest, ["/none"])["Id"]
    image = engine.client.api.commit(container, changes=['ENTRYPOINT ["/nowhere/banner.sh"]'])["Id"]
    engine.client.api.remove_container(container)
    try:
        changed = replace(base_image, reference=image, digest=image)
        exit_, log = run_it(make_spec("echo", "hello", image=changed))
        assert (exit_.code, log) == (0, "hello\n")
    finally:
        engine.client.api.remove_image(image)


def test_a_container_is_removed_some_time_after_its_end_whoever_had_it(engine):
    api = engine.client.api
    unseen = current_owner()._replace(namespaces="pid:[1]")
    left = api.create_container(BASE, ["true"], labels={OWNER: str(unseen)})["Id"]
    try:
        api.start(left)
        api.wait(left)
        engine.remove_stale()
        assert api.inspect_container(left)
        engine.remove_stale(left_after=timedelta())
        with pytest.raises(NotFound):
            api.inspect_container(left)
    finally:
        remove_container(engine.client, left)


def test_stale_containers_are_those_of_ended_harnesses(engine):
    current = current_owner()
    ended = subprocess.Popen(["sleep", "1000"])
    gone = current._replace(pid=str(ended.pid), started=start_ticks(str(ended.pid)))
    ended.kill()
    ended.wait()
    alive = subprocess.Popen(["sleep", "1000"])
    labels = {
        "gone": {OWNER: str(gone)},
        "earlier boot": {OWNER: str(current._replace(boot="another"))},
        "reused pid": {OWNER: str(current._replace(pid=str(alive.pid), started="1"))},
        "alive": {OWNER: str(current._replace(pid=str(alive.pid), started=start_ticks(str(alive.pid))))},
        "another pid namespace": {
            OWNER: str(gone._replace(namespaces=gone.namespaces.replace("pid:", "pid:1")))
        },
        "another time namespace": {
            OWNER: str(gone._replace(namespaces=gone.namespaces.replace("time:", "time:1")))
        },
        "current": {OWNER: str(current)},
        "unrelated": {"com.example": "x"},
    }
    api = engine.client.api
    ids = {name: api.create_container(BASE, ["true"], labels=label)["Id"] for name, label in labels.items()}
    try:
        engine.remove_stale()
        existing = {entry["Id"] for entry in api.containers(all=True)}
        remaining = {name for name, container_id in ids.items() if container_id in existing}
        assert remaining == {
            "alive",
            "another pid namespace",
            "another time namespace",
            "current",
            "unrelated",
        }
    finally:
        alive.kill()
        alive.wait()
        for container_id in ids.values():
            remove_container(engine.client, container_id)
