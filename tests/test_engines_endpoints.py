"""Where engines are looked for, who containers run as, and what is said when nothing answers."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import UnixStreamServer
from threading import Thread

import psutil
import pytest

from harness.engines import ContainerSpec, GpuAccess
from harness.engines.connect import settled
from harness.engines.container_settings import environment, host_options, identity_for
from harness.engines.daemon import Daemon, image_folder
from harness.engines.docker import DockerEngine
from harness.engines.endpoints import connect_first, endpoints
from harness.engines.owner import current_owner, owner_from
from harness.errors import EngineError
from harness.model.platform import EngineInfo, ImageInfo

INFO = EngineInfo(name="docker", version="28.0.0", isolated=True, cgroup_version=2, runtimes=("runc",))
DAEMON = Daemon(info=INFO)
SPEC = ContainerSpec(
    image=ImageInfo(target="cpu", reference="x", digest="", base="", lock_sha256=""),
    command=("true",),
    environment={},
    out=Path("/out"),
    mounts=(),
    trial_id="t",
    run_id="r",
    memory_bytes=2**30,
    cpus="0-1",
    cpu_quota=1.5,
)


def test_docker_comes_before_podman_which_may_be_asked_for_alone_and_docker_host_before_all():
    sockets = [
        "/var/run/docker.sock",
        "/run/user/7/docker.sock",
        "/run/user/7/podman/podman.sock",
        "/run/podman/podman.sock",
    ]
    runtime = {"XDG_RUNTIME_DIR": "/run/user/7"}
    assert list(map(str, endpoints(runtime))) == sockets
    assert list(map(str, endpoints(runtime, podman=True))) == sockets[2:]
    for podman in (False, True):
        chosen = endpoints({**runtime, "DOCKER_HOST": "unix:///d.sock"}, podman=podman)
        assert chosen == {Path("/d.sock"): "DOCKER_HOST"}


@pytest.mark.parametrize("podman", [False, True])
@pytest.mark.parametrize("url", ["ssh://lab", "tcp://127.0.0.1:2375", "http://lab"])
def test_engines_on_other_machines_are_refused_with_what_to_do(url, podman):
    with pytest.raises(EngineError, match="another machine") as caught:
        endpoints({"DOCKER_HOST": url}, podman=podman)
    assert "tfbench fleet" in caught.value.hint


@contextmanager
def answering(socket: Path, component: str, **changes: object) -> Iterator[dict[str, str]]:
    """Have an engine of that name answer on a socket; give the environment that names it."""
    memory = psutil.virtual_memory().total
    info = {"Name": platform.node(), "KernelVersion": platform.release(), "MemTotal": memory, **changes}

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            version = {"ApiVersion": "1.41", "Version": "4.9", "Components": [{"Name": component}]}
            body = json.dumps(version if self.path.endswith("/version") else info).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def address_string(self) -> str:
            return "unix"

        def log_message(self, *_: object) -> None:
            pass

    socket.parent.mkdir(parents=True, exist_ok=True)
    with UnixStreamServer(str(socket), Answer) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        try:
            yield {"XDG_RUNTIME_DIR": str(socket.parents[1])}
        finally:
            server.shutdown()


def test_podman_by_name(tmp_path):
    with answering(tmp_path / "podman/podman.sock", "Podman Engine") as environment:
        engine = DockerEngine(environment, podman=True)
        assert (engine.connect().name, engine.daemon.info.version) == ("podman", "4.9")
        engine.close()


def test_another_engine_is_not_taken_for_podman(tmp_path):
    with answering(tmp_path / "podman/podman.sock", "Engine"):
        environment = {"DOCKER_HOST": f"unix://{tmp_path}/podman/podman.sock"}
        with pytest.raises(EngineError, match=r"DOCKER_HOST at .* is docker 4\.9") as e:
            DockerEngine(environment, podman=True).connect()
        assert "--engine docker" in e.value.hint
        engine = DockerEngine(environment)
        assert engine.connect().name == "docker"
        engine.close()


def test_where_no_podman_answers_its_sockets_and_the_setting_are_told(tmp_path):
    with pytest.raises(EngineError, match="No container engine answers") as caught:
        DockerEngine({"DOCKER_HOST": f"unix://{tmp_path}/none.sock"}, podman=True).connect()
    assert f"DOCKER_HOST at unix://{tmp_path}/none.sock: no such socket" in caught.value.message
    for remedy in ("systemctl --user start podman.socket", "DOCKER_HOST=unix://"):
        assert remedy in caught.value.hint


def test_a_run_that_asked_for_podman_asks_for_it_again():
    podman = replace(INFO, name="podman")
    local = EngineInfo(name="local", version="", isolated=False)
    assert settled("podman", podman) == "podman"
    assert settled("auto", podman) == "docker", "whichever speaks its interface there"
    assert settled("auto", local) == "local"


def test_where_images_lie(tmp_path):
    root = {"DockerRootDir": "/data/docker", "DriverStatus": [["Backing Filesystem", "extfs"]]}
    assert image_folder(root, containerd=tmp_path) == "/data/docker"
    snapshots = {**root, "DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]]}
    assert image_folder(snapshots, containerd=tmp_path) == str(tmp_path)
    assert image_folder(snapshots, containerd=tmp_path / "none") == "/data/docker"
    assert image_folder({}) == ""


def test_an_engine_of_another_kernel_is_refused(tmp_path):
    with (
        answering(tmp_path / "podman/podman.sock", "Podman Engine", Name="elsewhere") as environment,
        pytest.raises(EngineError, match="runs on another machine"),
    ):
        DockerEngine(environment, podman=True).connect()


def test_every_place_and_its_failure_is_told(tmp_path):
    (tmp_path / "file").touch()
    tried = {tmp_path / "none.sock": "Docker", tmp_path / "file": "Podman"}
    with pytest.raises(EngineError) as caught:
        connect_first(tried)
    assert "Docker at unix://" in caught.value.message
    assert "no such socket" in caught.value.message
    assert caught.value.message.count("Connection refused") == 1
    for remedy in ("make engine", "usermod -aG docker", "ENGINE=local"):
        assert remedy in caught.value.hint


@pytest.mark.parametrize(
    ("changes", "uid", "user", "host_ids", "namespace"),
    [
        ({}, 1000, "1000:100", None, ""),
        ({}, 0, "10001:10001", (10001, 10001), ""),
        ({"info": replace(INFO, rootless=True)}, 1000, "0:0", None, ""),
        ({"info": replace(INFO, rootless=True, name="podman")}, 1000, "1000:100", None, "keep-id"),
        ({"user_namespaces": True}, 1000, "1000:100", None, "host"),
    ],
)
def test_containers_are_never_root_on_the_host(changes, uid, user, host_ids, namespace):
    identity = identity_for(replace(DAEMON, **changes), uid, 100)
    assert (identity.user, identity.host_ids, identity.user_namespace) == (user, host_ids, namespace)


def test_limits_that_the_engine_cannot_set_are_not_asked_for():
    who = identity_for(DAEMON, 1000, 1000)
    full = host_options(SPEC, DAEMON, who, ())
    assert (full["mem_limit"], full["memswap_limit"], full["cpuset_cpus"], full["nano_cpus"]) == (
        2**30,
        2**30,
        "0-1",
        1_500_000_000,
    )
    poor = replace(DAEMON, limits=frozenset())
    options = host_options(SPEC, poor, who, ())
    for name in ("mem_limit", "memswap_limit", "pids_limit", "cpuset_cpus", "nano_cpus"):
        assert options[name] is None


def test_selinux_does_not_shut_out_the_mounts():
    options = host_options(SPEC, replace(DAEMON, selinux=True), identity_for(DAEMON, 1, 1), ())
    assert options["security_opt"] == ["no-new-privileges", "label=disable"]


def test_gpu_requests_follow_the_way_of_access():
    who = identity_for(DAEMON, 1000, 1000)
    toolkit = replace(SPEC, gpu=GpuAccess(kind="toolkit", uuids=("GPU-a",)))
    (request,) = host_options(toolkit, DAEMON, who, ())["device_requests"]
    assert (request["Driver"], request["DeviceIDs"]) == ("nvidia", ["GPU-a"])
    cdi = replace(SPEC, gpu=GpuAccess(kind="cdi", uuids=("GPU-a",), device_nodes=("nvidia.com/gpu=0",)))
    (request,) = host_options(cdi, DAEMON, who, ())["device_requests"]
    assert (request["Driver"], request["DeviceIDs"]) == ("cdi", ["nvidia.com/gpu=0"])
    nodes = replace(SPEC, gpu=GpuAccess(kind="devices", uuids=("GPU-a",), device_nodes=("/dev/null",)))
    options = host_options(nodes, DAEMON, who, ())
    assert options["device_requests"] is None
    assert options["devices"] == ["/dev/null:/dev/null:rw"]
    assert options["group_add"] is None


def test_group_of_a_closed_device_node_is_joined(tmp_path):
    node = tmp_path / "nvidia0"
    node.touch(mode=0o660)
    spec = replace(SPEC, gpu=GpuAccess(kind="devices", uuids=("GPU-a",), device_nodes=(str(node),)))
    options = host_options(spec, DAEMON, identity_for(DAEMON, 1000, 1000), ())
    assert options["group_add"] == [node.stat().st_gid]


def test_driver_libraries_come_before_the_image_s_own():
    gpu = GpuAccess(
        kind="devices", uuids=("GPU-a",), environment={"LD_LIBRARY_PATH": "/usr/local/nvidia/lib64"}
    )
    made = environment(replace(SPEC, gpu=gpu), {"LD_LIBRARY_PATH": "/opt/lib"})
    assert made["LD_LIBRARY_PATH"] == "/usr/local/nvidia/lib64:/opt/lib"
    assert environment(SPEC, {})["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_owner_survives_its_labels():
    here = current_owner()
    assert owner_from(here.labels()) == here
    assert not here.gone_for(here)
    assert owner_from({}) is None
    assert owner_from({**here.labels(), "tfbench.pid": "x"}) is None
