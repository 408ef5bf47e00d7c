import platform
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from harness.engines import FILE_DIR, GpuAccess, Mount
from harness.engines.container_settings import check_readable, environment, host_options, identity_for
from harness.engines.docker_client import Daemon, connect_first, describe, endpoints
from harness.errors import EngineError
from harness.model.platform import EngineInfo
from tests.builders import container_spec

INFO = EngineInfo(name="docker", version="28.0.0", isolated=True, cgroup_version=2, runtimes=("runc",))
DAEMON = Daemon(info=INFO)
SPEC = container_spec(memory_bytes=2**30, cpus="0,1", cpu_quota=1.5)


def test_order_of_endpoints():
    runtime = {"XDG_RUNTIME_DIR": "/run/user/7"}
    assert list(map(str, endpoints(runtime))) == [
        "/var/run/docker.sock",
        "/run/user/7/docker.sock",
        "/run/user/7/podman/podman.sock",
        "/run/podman/podman.sock",
    ]
    assert endpoints({**runtime, "DOCKER_HOST": "unix:///d.sock"}) == {Path("/d.sock"): "DOCKER_HOST"}


@pytest.mark.parametrize("url", ["ssh://lab", "tcp://127.0.0.1:2375", "http://lab"])
def test_remote_engine_is_an_error(url):
    with pytest.raises(EngineError, match="another machine") as raised:
        endpoints({"DOCKER_HOST": url})
    assert "tfbench fleet" in raised.value.hint


def describe_engine(component: str, **changes: object) -> EngineInfo:
    memory = psutil.virtual_memory().total
    info = {"Name": platform.node(), "KernelVersion": platform.release(), "MemTotal": memory, **changes}
    version = {"Version": "4.9", "Components": [{"Name": component}]}
    return describe(SimpleNamespace(version=lambda: version, info=lambda: info)).info


def test_podman_is_detected_by_component():
    assert describe_engine("Podman Engine").cdi_folders == ("/etc/cdi", "/var/run/cdi")
    info = describe_engine("Engine", SecurityOptions=["name=rootless"], CgroupVersion="2")
    assert (info.name, info.version, info.rootless, info.cgroup_version) == ("docker", "4.9", True, 2)
    with pytest.raises(EngineError, match="runs on another machine"):
        describe_engine("Engine", Name="elsewhere")


def test_error_gives_reason_for_each_socket(tmp_path):
    (tmp_path / "file").touch()
    sockets = {tmp_path / "none.sock": "Docker", tmp_path / "file": "Podman"}
    with pytest.raises(EngineError) as raised:
        connect_first(sockets)
    assert "Docker at unix://" in raised.value.message
    assert "no such socket" in raised.value.message
    assert raised.value.message.count("Connection refused") == 1
    for remedy in ("make engine", "usermod -aG docker", "ENGINE=local"):
        assert remedy in raised.value.hint


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


def test_options_contain_only_supported_limits():
    limits = {
        "mem_limit": 2**30, "memswap_limit": 2**30, "cpuset_cpus": "0,1", "nano_cpus": 1_500_000_000,
        "pids_limit": SPEC.pids,
    }  # fmt: skip
    identity = identity_for(DAEMON, 1000, 1000)
    assert limits.items() <= host_options(SPEC, DAEMON, identity, ()).items()
    unlimited = host_options(SPEC, replace(DAEMON, limits=frozenset(), selinux=True), identity, ())
    assert not limits.keys() & unlimited.keys()
    assert unlimited["security_opt"] == ["no-new-privileges", "label=disable"], "needed to read mounts"


@pytest.mark.parametrize(
    ("kind", "nodes", "driver", "ids"),
    [("toolkit", (), "nvidia", ["GPU-a"]), ("cdi", ("nvidia.com/gpu=0",), "cdi", ["nvidia.com/gpu=0"])],
)
def test_gpu_request_of_each_access_kind(kind, nodes, driver, ids):
    spec = replace(SPEC, gpu=GpuAccess(kind=kind, uuids=("GPU-a",), device_nodes=nodes))
    (request,) = host_options(spec, DAEMON, identity_for(DAEMON, 1000, 1000), ())["device_requests"]
    assert (request["Driver"], request["DeviceIDs"]) == (driver, ids)


def test_device_nodes_are_passed_with_their_groups_unless_world_writable(tmp_path):
    node = tmp_path / "nvidia0"
    node.touch(mode=0o660)
    spec = replace(SPEC, gpu=GpuAccess(kind="devices", uuids=("a",), device_nodes=(str(node), "/dev/null")))
    options = host_options(spec, DAEMON, identity_for(DAEMON, 1000, 1000), ())
    assert options["device_requests"] is None
    assert options["devices"] == [f"{node}:{node}:rw", "/dev/null:/dev/null:rw"]
    assert options["group_add"] == [node.stat().st_gid]


def test_driver_libraries_precede_image_libraries():
    gpu = GpuAccess(kind="devices", uuids=("GPU-a",), environment={"LD_LIBRARY_PATH": "/driver/lib64"})
    variables = environment(replace(SPEC, gpu=gpu), {"LD_LIBRARY_PATH": "/opt/lib"})
    assert variables["LD_LIBRARY_PATH"] == "/driver/lib64:/opt/lib"
    assert environment(SPEC, {})["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_unreadable_mount_is_an_error(tmp_path):
    """Of a script's folder only itself must be readable; chmod is not suggested, because it may be a home folder."""
    (tmp_path / "key").touch(mode=0o600)
    tmp_path.chmod(0o755)
    script, data = (Mount(container=where, host=tmp_path) for where in (FILE_DIR, "/tfbench/data"))
    check_readable([script])
    with pytest.raises(EngineError, match=r"cannot read .*key") as raised:
        check_readable([data])
    assert "chmod -R o+rX" in raised.value.hint
    tmp_path.chmod(0o700)
    with pytest.raises(EngineError, match="cannot read") as raised:
        check_readable([script])
    assert "Move the script" in raised.value.hint
    assert "chmod" not in raised.value.hint


def test_name_that_is_not_utf8_is_a_clear_error(tmp_path):
    mount = Mount(container=FILE_DIR, host=tmp_path / "x\udcff")
    with pytest.raises(EngineError, match="not UTF-8") as raised:
        host_options(SPEC, DAEMON, identity_for(DAEMON, 1000, 1000), (mount,))
    assert raised.value.message.isprintable()
