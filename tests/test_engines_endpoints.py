"""Where engines are looked for, who containers run as, and what is said when nothing answers."""

from __future__ import annotations

import platform
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from harness.engines import FILE_DIR, GpuAccess, Mount
from harness.engines.container_settings import environment, host_options, identity_for
from harness.engines.daemon import Daemon, describe
from harness.engines.endpoints import connect_first, endpoints
from harness.engines.ownership import check_readable
from harness.errors import EngineError
from harness.model.platform import EngineInfo
from tests.builders import container_spec

INFO = EngineInfo(name="docker", version="28.0.0", isolated=True, cgroup_version=2, runtimes=("runc",))
DAEMON = Daemon(info=INFO)
SPEC = container_spec(memory_bytes=2**30, cpus="0-1", cpu_quota=1.5)


def test_docker_comes_before_podman_and_docker_host_before_all():
    runtime = {"XDG_RUNTIME_DIR": "/run/user/7"}
    assert list(map(str, endpoints(runtime))) == [
        "/var/run/docker.sock",
        "/run/user/7/docker.sock",
        "/run/user/7/podman/podman.sock",
        "/run/podman/podman.sock",
    ]
    assert endpoints({**runtime, "DOCKER_HOST": "unix:///d.sock"}) == {Path("/d.sock"): "DOCKER_HOST"}


@pytest.mark.parametrize("url", ["ssh://lab", "tcp://127.0.0.1:2375", "http://lab"])
def test_engines_on_other_machines_are_refused_with_what_to_do(url):
    with pytest.raises(EngineError, match="another machine") as caught:
        endpoints({"DOCKER_HOST": url})
    assert "tfbench fleet" in caught.value.hint


def described(component: str, **changes: object) -> EngineInfo:
    """Return what an engine that is of that name, and runs here, is taken for."""
    memory = psutil.virtual_memory().total
    info = {"Name": platform.node(), "KernelVersion": platform.release(), "MemTotal": memory, **changes}
    version = {"Version": "4.9", "Components": [{"Name": component}]}
    return describe(SimpleNamespace(version=lambda: version, info=lambda: info)).info


def test_podman_is_known_by_its_component_and_reads_cdi():
    assert described("Podman Engine").cdi_folders == ("/etc/cdi", "/var/run/cdi")
    info = described("Engine", SecurityOptions=["name=rootless"], CgroupVersion="2")
    assert (info.name, info.version, info.rootless, info.cgroup_version) == ("docker", "4.9", True, 2)
    with pytest.raises(EngineError, match="runs on another machine"):
        described("Engine", Name="elsewhere")


def test_each_socket_is_named_with_its_failure(tmp_path):
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


def test_options_follow_what_the_engine_can():
    limits = {
        "mem_limit": 2**30, "memswap_limit": 2**30, "cpuset_cpus": "0-1", "nano_cpus": 1_500_000_000,
        "pids_limit": SPEC.pids,
    }  # fmt: skip
    who = identity_for(DAEMON, 1000, 1000)
    assert limits.items() <= host_options(SPEC, DAEMON, who, ()).items()
    without = host_options(SPEC, replace(DAEMON, limits=frozenset(), selinux=True), who, ())
    assert not limits.keys() & without.keys()
    assert without["security_opt"] == ["no-new-privileges", "label=disable"], "SELinux lets mounts be read"


@pytest.mark.parametrize(
    ("kind", "nodes", "driver", "ids"),
    [("toolkit", (), "nvidia", ["GPU-a"]), ("cdi", ("nvidia.com/gpu=0",), "cdi", ["nvidia.com/gpu=0"])],
)
def test_gpu_requests_follow_the_way_of_access(kind, nodes, driver, ids):
    spec = replace(SPEC, gpu=GpuAccess(kind=kind, uuids=("GPU-a",), device_nodes=nodes))
    (request,) = host_options(spec, DAEMON, identity_for(DAEMON, 1000, 1000), ())["device_requests"]
    assert (request["Driver"], request["DeviceIDs"]) == (driver, ids)


def test_device_nodes_are_passed_with_the_groups_of_those_that_are_not_open_to_all(tmp_path):
    closed = tmp_path / "nvidia0"
    closed.touch(mode=0o660)
    spec = replace(SPEC, gpu=GpuAccess(kind="devices", uuids=("a",), device_nodes=(str(closed), "/dev/null")))
    options = host_options(spec, DAEMON, identity_for(DAEMON, 1000, 1000), ())
    assert options["device_requests"] is None
    assert options["devices"] == [f"{closed}:{closed}:rw", "/dev/null:/dev/null:rw"]
    assert options["group_add"] == [closed.stat().st_gid]


def test_driver_libraries_come_before_the_image_s_own():
    gpu = GpuAccess(
        kind="devices", uuids=("GPU-a",), environment={"LD_LIBRARY_PATH": "/usr/local/nvidia/lib64"}
    )
    made = environment(replace(SPEC, gpu=gpu), {"LD_LIBRARY_PATH": "/opt/lib"})
    assert made["LD_LIBRARY_PATH"] == "/usr/local/nvidia/lib64:/opt/lib"
    assert environment(SPEC, {})["NVIDIA_VISIBLE_DEVICES"] == "void"


@pytest.mark.parametrize(
    ("place", "printed"), [(FILE_DIR, "folder of its own"), ("/tfbench/data", "chmod -R o+rX")]
)
def test_what_the_container_cannot_read_is_named_and_no_home_is_opened(tmp_path, place, printed):
    """A workload file may lie in a home, beside keys."""
    (tmp_path / "key").touch(mode=0o600)
    tmp_path.chmod(0o755)
    with pytest.raises(EngineError, match="key cannot be read") as error:
        check_readable([Mount(container=place, host=tmp_path)])
    assert printed in error.value.hint
    assert ("chmod" in error.value.hint) == (place != FILE_DIR)
