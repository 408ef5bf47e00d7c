import json
import os
import platform
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import chain, repeat
from pathlib import Path
from socket import SHUT_WR
from socketserver import BaseRequestHandler, ThreadingUnixStreamServer
from types import MappingProxyType, SimpleNamespace

import psutil
import pytest
from docker.errors import APIError
from psutil import _psutil_linux

from harness.engines import FILE_DIR, GpuAccess, Mount
from harness.engines.container_settings import (
    check_readable,
    environment,
    host_options,
    identity_for,
    with_secrets_of,
)
from harness.engines.docker import DockerEngine
from harness.engines.docker_client import (
    CONNECT_S,
    Daemon,
    connect_first,
    describe,
    endpoints,
    engine_call,
    id_of,
)
from harness.engines.gpu_access import CONTAINER_LIBRARIES, choose_access
from harness.errors import EngineError, GpuError, UsageError
from harness.images.builder import ImageBuilder
from harness.model.platform import EngineInfo, Level
from harness.system.doctor_checks import new_gpu_checks
from harness.system.gpus import check_driver, select_gpus
from tests.builders import container_spec, gpu
from tests.commands import output_of
from tests.conftest import ROOT
from tests.errors import user_error
from tests.fakes import RecordingProgress
from tests.folders import write_files
from workloads.protocol import PRIVATE

INFO = EngineInfo(name="docker", version="28.0.0", isolated=True, cgroup_version=2, runtimes=("runc",))
DAEMON = Daemon(info=INFO)
SPEC = container_spec(memory_bytes=2**30, cpus="0,1", cpu_quota=1.5)


@pytest.mark.parametrize(
    ("answer", "advice"),
    [
        ('invalid mount config for type "bind": stat /home/a/share: permission denied', "allow_other"),
        ('exec: "python3": executable file not found in $PATH', "--image needs it"),
        ("no space left on device", "journalctl"),
        (
            'invalid mount config for type "bind": bind source path does not exist: /tmp/o',
            "does not see this folder",
        ),
    ],
)
def test_a_refused_start_says_what_to_try(answer: str, advice: str) -> None:
    with pytest.raises(EngineError, match=advice), engine_call("start trial a"):
        raise APIError("400", explanation=answer)


def test_order_of_endpoints():
    runtime = {"XDG_RUNTIME_DIR": "/run/user/7"}
    assert list(map(str, endpoints(runtime))) == [
        "/var/run/docker.sock",
        "/run/user/7/docker.sock",
    ]
    assert endpoints({**runtime, "DOCKER_HOST": "unix:///d.sock"}) == {Path("/d.sock"): "DOCKER_HOST"}
    assert endpoints({**runtime, "DOCKER_CONTEXT": "default"}) == endpoints(runtime)
    with pytest.raises(EngineError, match="DOCKER_CONTEXT=nope is no context"):
        endpoints({"DOCKER_CONTEXT": "nope"})
    for url in ("ssh://lab", "tcp://127.0.0.1:2375", "http://lab"):
        with user_error(EngineError, "names no socket of this machine", hint="tfbench fleet"):
            endpoints({"DOCKER_HOST": url})


def describe_engine(**changes: object) -> EngineInfo:
    memory = psutil.virtual_memory().total
    info = {"Name": platform.node(), "KernelVersion": platform.release(), "MemTotal": memory, **changes}
    version = {"Version": "4.9"}
    return describe(SimpleNamespace(version=lambda: version, info=lambda: info)).info


def test_what_an_engine_says_of_itself():
    info = describe_engine(SecurityOptions=["name=rootless"], CgroupVersion="2")
    assert (info.name, info.version, info.rootless, info.cgroup_version) == ("docker", "4.9", True, 2)
    with pytest.raises(EngineError, match="runs on another machine"):
        describe_engine(Name="elsewhere")


def test_error_gives_reason_for_each_socket(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    sockets = {tmp_path / "none.sock": "Docker", tmp_path / "file": "rootless Docker"}
    with pytest.raises(EngineError) as raised:
        connect_first(sockets)
    assert "Docker at unix://" in raised.value.message
    assert "no such socket" in raised.value.message
    assert raised.value.message.count("Connection refused") == 1
    for remedy in ("make engine", "usermod -aG docker", "ENGINE=local"):
        assert remedy in raised.value.hint
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    for content in ("[]", '{"proxies": []}', "[" * 100_000):
        (tmp_path / "config.json").write_text(content)
        with pytest.raises(EngineError, match=r"config\.json is damaged"):
            connect_first({tmp_path / "file": "Docker"})
    (tmp_path / "config.json").unlink()
    os.mkfifo(tmp_path / "config.json")
    with pytest.raises(EngineError, match=r"config\.json is damaged"):
        connect_first({tmp_path / "file": "Docker"})


@contextmanager
def engine_that_answers(
    head: str, body: Iterable[bytes], others: Mapping[str, tuple[str, str]] = MappingProxyType({})
) -> Iterator[Path]:
    """An engine's socket that answers each request alike, but for others by part of their path, on HTTP/1.0.

    A client of 1.1 would send its next request on the same connection.
    """

    end = "" if head.endswith(":") else "\r\n\r\n"

    class Answer(BaseRequestHandler):
        def handle(self) -> None:
            asked = self.request.recv(1 << 16).split()[1].decode()
            given = (
                [f"HTTP/1.0 {status}\r\n\r\n{text}".encode()]
                for path, (status, text) in others.items()
                if path in asked
            )
            with suppress(OSError):
                for part in next(given, chain([f"HTTP/1.0 {head}{end}".encode()], body)):
                    self.request.sendall(part)
                self.request.shutdown(SHUT_WR)
                while self.request.recv(1 << 16):  # unread data would reset the connection
                    pass

    # Not in pytest's folder: a socket's path is limited to 107 bytes.
    with tempfile.TemporaryDirectory(prefix="tfb-") as folder:
        socket = Path(folder) / "engine.sock"
        with ThreadingUnixStreamServer(str(socket), Answer) as server:
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            try:
                yield socket
            finally:
                server.shutdown()


def dripping() -> Iterator[bytes]:
    while True:
        time.sleep(0.05)
        yield b" "


def test_an_id_that_is_no_text_is_an_answer_that_cannot_be_read():
    for answer in ({"Id": {"a": "../../x"}}, {"Id": 5}, {}, []):
        with pytest.raises(EngineError, match="its answer cannot be read"), engine_call("start trial 1"):
            id_of(answer)


@pytest.mark.parametrize(
    ("head", "body", "reason"),
    [
        ("200 OK\r\nContent-Length: 1000", dripping, "no whole answer in 0.3 s"),
        ("200 OK\r\nX:", dripping, "no whole answer in 0.3 s"),
        ("200 OK\r\nContent-Length: 6000000000", lambda: repeat(bytes(1 << 20)), "more than 64 MiB"),
        ("200 OK\r\nContent-Length: 2", lambda: [b"{}"], "is not Docker's"),
        ("200 OK\r\nContent-Length: 2", lambda: [b"[]"], "is not Docker's"),
        ("200 OK\r\nContent-Length: 200000", lambda: [b"[" * 200_000], "is not Docker's"),
        ("301 Moved\r\nLocation: /version\r\nContent-Length: 0", lambda: [b""], "is not Docker's"),
        ("500 Error\r\nContent-Length: 2", lambda: [b"{}"], "cannot be read: status 500 without a message"),
        ("200 OK\r\nContent-Length: 6", lambda: [b"<html>"], "is not JSON"),
        ("is what HTTP has a number for", list, "is not HTTP"),
        ("503 Busy\r\nContent-Length: 6", lambda: [b"<html>"], "a web page"),
        ("200 OK\r\nContent-Length: 21", lambda: [b'{"ApiVersion":"1.12"}'], "it is too old"),
        ("200 OK\r\nContent-Length: 21", lambda: [b'{"ApiVersion":"1.26"}'], "it is too old: API 1.26;"),
        ("403 Forbidden\r\nContent-Length: 32", lambda: [b'{"message": "denied by plugin."}'], "denied by plugin."),
    ],
    ids=range(14),
)  # fmt: skip
def test_reason_of_an_unusual_engine_is_told(head, body, reason):
    timeout_s = 0.3 if body is dripping else CONNECT_S
    with engine_that_answers(head, body()) as socket, pytest.raises(EngineError) as raised:
        connect_first({socket: "Docker", socket.with_name("none"): "rootless Docker"}, timeout_s)
    assert reason in raised.value.message
    told = ("cannot be read", "not Docker's", "JSON", "HTTP", "web page", "too old")
    assert ("check what answers" in raised.value.hint) is any(part in reason for part in told)
    assert ".." not in raised.value.message


MACHINE = {
    "Name": platform.node(),
    "KernelVersion": platform.release(),
    "MemTotal": psutil.virtual_memory().total,
}


@contextmanager
def engine_described(**others: tuple[str, str]) -> Iterator[DockerEngine]:
    text = json.dumps({"ApiVersion": "1.41", "SecurityOptions": ["name=rootless"], **MACHINE}).encode()
    with engine_that_answers(f"200 OK\r\nContent-Length: {len(text)}", [text], others) as socket:
        yield DockerEngine.connect({"DOCKER_HOST": f"unix://{socket}"})


def existing(engine: DockerEngine) -> object:
    return ImageBuilder(ROOT, ROOT, engine.client, RecordingProgress()).existing("cpu")


def custom(engine: DockerEngine) -> object:
    return ImageBuilder(ROOT, ROOT, engine.client, RecordingProgress()).custom("cpu", "name:tag")


def start(engine: DockerEngine) -> object:
    return engine.start(SPEC)


OK, CREATED = "200 OK", ("200 OK", '{"Id": "0123"}')
MISSING = ("404 Not Found", '{"message": "no such image"}')


@pytest.mark.parametrize(
    ("call", "others"),
    [
        (existing, {"/images/": (OK, '{"a":' * 100_000)}),
        (existing, {"/images/": ("404 Not Found", "[]")}),
        (existing, {"/images/": (OK, "null")}),
        (custom, {"/images/create": (OK, "7"), "/images/": MISSING}),
        (DockerEngine.remove_stale, {"/containers/json": (OK, '[{"Id": "a"}]')}),
        (start, {"/containers/create": (OK, '{"id": "a"}')}),
        (start, {"/containers/create": CREATED, "/attach": ("200 OK\r\nContent-Length: 0", "")}),
    ],
)
def test_an_answer_of_another_form_is_an_error_of_the_engine(call, others):
    with (
        engine_described(**others) as engine,
        pytest.raises(EngineError, match="answer cannot be read") as raised,
    ):
        call(engine)
    assert "check what answers at its socket" in raised.value.hint


@pytest.mark.parametrize(
    ("changes", "uid", "user", "host_ids", "namespace"),
    [
        ({}, 1000, "1000:100", None, ""),
        ({}, 0, "10001:10001", (10001, 10001), ""),
        ({"info": replace(INFO, rootless=True)}, 1000, "0:0", None, ""),
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
    modes = [
        host_options(replace(SPEC, network=on), DAEMON, identity, ())["network_mode"] for on in (False, True)
    ]
    assert modes == ["none", None], "the engine's default"
    unlimited = host_options(SPEC, replace(DAEMON, limits=frozenset(), selinux=True), identity, ())
    assert not limits.keys() & unlimited.keys()
    assert unlimited["security_opt"] == ["no-new-privileges", "label=disable"], "needed to read mounts"
    large = host_options(replace(SPEC, memory_bytes=80 << 30), DAEMON, identity, ())
    assert [options["tmpfs"]["/tmp"].rpartition("size=")[2] for options in (large, unlimited)] == [
        str(20 << 30), str(2 << 30),
    ], "for the checkpoints of large models"  # fmt: skip
    for kind, nodes, wanted in (
        ("toolkit", (), ("nvidia", ["GPU-a"])), ("cdi", ("nvidia.com/gpu=0",), ("cdi", ["nvidia.com/gpu=0"])),
    ):  # fmt: skip
        spec = replace(SPEC, gpu=GpuAccess(kind=kind, uuids=("GPU-a",), device_nodes=nodes))
        (request,) = host_options(spec, DAEMON, identity, ())["device_requests"]
        assert (request["Driver"], request["DeviceIDs"]) == wanted
    for name in ("x\udcff", "x\x01"):
        mount = Mount(container=FILE_DIR, host=Path("/", name))
        with pytest.raises(UsageError, match="cannot be printed") as raised:
            host_options(SPEC, DAEMON, identity, (mount,))
        assert raised.value.message.isprintable()


def test_device_nodes_are_passed_with_their_groups_unless_world_writable(tmp_path):
    node = tmp_path / "nvidia0"
    node.touch(mode=0o660)
    spec = replace(SPEC, gpu=GpuAccess(kind="devices", uuids=("a",), device_nodes=(str(node), "/dev/null")))
    options = host_options(spec, DAEMON, identity_for(DAEMON, 1000, 1000), ())
    assert options["device_requests"] is None
    assert options["devices"] == [f"{node}:{node}:rw", "/dev/null:/dev/null:rw"]
    assert options["group_add"] == [node.stat().st_gid]
    gpu = GpuAccess(kind="devices", uuids=("GPU-a",), environment={"LD_LIBRARY_PATH": "/driver/lib64"})
    variables = environment(replace(SPEC, gpu=gpu), {"LD_LIBRARY_PATH": "/opt/lib"})
    assert variables["LD_LIBRARY_PATH"] == "/driver/lib64:/opt/lib", "those of the driver first"
    assert environment(SPEC, {})["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_modules_of_an_image_are_found_after_those_of_tfbench():
    spec = replace(SPEC, environment={"PYTHONPATH": "/tfbench"})
    assert environment(spec, {"PYTHONPATH": "/opt/src"})["PYTHONPATH"] == "/tfbench:/opt/src"
    assert environment(spec, {"PYTHONPATH": ""})["PYTHONPATH"] == "/tfbench"


def test_unreadable_mount_is_an_error(tmp_path):
    """Of a script's folder only itself must be readable; chmod is not suggested, because it may be a home folder."""
    (tmp_path / "key").touch(mode=0o600)
    tmp_path.chmod(0o755)
    script, data = (Mount(container=where, host=tmp_path) for where in (FILE_DIR, "/tfbench/data"))
    (tmp_path / ".#train.py").symlink_to("user@host.1234:1")  # an editor's lock
    (tmp_path / "__pycache__").mkdir(mode=0o700)
    check_readable([script])
    with user_error(EngineError, r"cannot read .*key", hint="chmod -R o+rX"):
        check_readable([data])
    tmp_path.chmod(0o700)
    with pytest.raises(EngineError, match="cannot read") as raised:
        check_readable([script])
    assert "Move the script" in raised.value.hint
    assert "chmod" not in raised.value.hint


@pytest.mark.parametrize("container", ["/home/bob/data", "/tfbench/user/1/2/3/4/5/6/real"])
def test_a_folder_of_the_user_may_hold_unreadable_files(tmp_path, container):
    """Also one that a link leads to."""
    (tmp_path / "private").touch(0o600)
    tmp_path.chmod(0o755)
    check_readable([Mount(container=container, host=tmp_path)])
    tmp_path.chmod(0o700)
    with pytest.raises(EngineError) as raised:
        check_readable([Mount(container=container, host=tmp_path)])
    assert "chmod" not in raised.value.hint


DOCKER = EngineInfo(name="docker", version="28.0", isolated=True, runtimes=("runc",))
H200 = replace(gpu(), uuid="GPU-aaaa-0", minor_number=2)
DRIVER = H200.driver_version
SECOND = replace(H200, index=1, uuid="GPU-abbb-1", minor_number=0)
MIG_INSTANCES = tuple(
    replace(H200, index=2, uuid="GPU-cccc-2", mig_enabled=True, mig_uuid=name) for name in ("MIG-0", "MIG-1")
)
LIBRARIES = "usr/lib/x86_64-linux-gnu"


def create(root: Path, *paths: str, text: str = "") -> None:
    write_files(root, dict.fromkeys(paths, text))


def create_nodes(root: Path, *minors: int) -> None:
    create(root, "dev/nvidiactl", "dev/nvidia-uvm", *(f"dev/nvidia{minor}" for minor in minors))


def access(root: Path, gpus=(H200,), engine: EngineInfo = DOCKER):
    return choose_access(engine, gpus, root=root, libraries=root / LIBRARIES)


def test_select_by_index_uuid_and_mig():
    gpus = (H200, SECOND, *MIG_INSTANCES)
    assert select_gpus(gpus, "all") == gpus
    assert select_gpus(gpus, "1,0") == (SECOND, H200)
    assert select_gpus(gpus, " 0, GPU-aaaa-0 ") == (H200,)
    assert select_gpus(gpus, "MIG-1") == (MIG_INSTANCES[1],)
    for selection in ("0", "all"):
        with pytest.raises(UsageError, match="MIG mode"):
            select_gpus((replace(H200, mig_enabled=True),), selection)


@pytest.mark.parametrize(
    ("selection", "message"),
    [("7", "'7' matches no GPUs"), ("2", "matches 2 GPUs"), ("", "no GPUs"), ("0,", "''")],
)
def test_select_error_lists_gpus(selection, message):
    with pytest.raises(UsageError) as raised:
        select_gpus((H200, SECOND, *MIG_INSTANCES), selection)
    assert message in raised.value.message
    for name in ("GPU-aaaa-0", "GPU-abbb-1", "MIG-0"):
        assert name in raised.value.message


def test_check_driver():
    assert check_driver((H200, replace(H200, driver_version="525.60.13"))) == ()
    with pytest.raises(GpuError, match=r"is 470\.256\.02; .* needs 525\.60\.13"):
        check_driver((H200, replace(H200, driver_version="470.256.02")))
    with pytest.raises(GpuError, match=r"compute capability 5\.2; .* need 6\.0"):
        check_driver((replace(H200, compute_capability="5.2"),))
    newer = replace(H200, name="NVIDIA B200", compute_capability="10.0")
    (remark,) = check_driver((newer, replace(newer, index=1)))
    assert "takes minutes" in remark
    consumer = replace(H200, name="NVIDIA GeForce RTX 5090", compute_capability="12.0")
    (found,) = new_gpu_checks((H200, consumer, replace(consumer, index=1)))
    assert found.level is Level.ATTENTION
    assert all(issue in found.fact for issue in ("#89272", "#101746", "#111958"))
    assert found.fact in check_driver((consumer,))[0]


def test_access_of_each_engine(tmp_path):
    chosen = access(tmp_path, (SECOND, H200), EngineInfo(name="local", version="3", isolated=False))
    assert chosen.kind == "host"
    assert chosen.environment["CUDA_VISIBLE_DEVICES"] == "GPU-abbb-1,GPU-aaaa-0"
    chosen = access(tmp_path, engine=replace(DOCKER, runtimes=("nvidia", "runc")))
    assert (chosen.kind, chosen.uuids) == ("toolkit", ("GPU-aaaa-0",))
    assert (chosen.device_nodes, chosen.mounts) == ((), ())
    create(tmp_path, "usr/bin/nvidia-container-runtime-hook")
    assert access(tmp_path).kind == "toolkit"
    create(tmp_path, "etc/cdi/nvidia.yaml", text="kind: nvidia.com/gpu\ndevices:\n- name: '0'\n")
    with pytest.raises(GpuError, match="one MIG instance"):
        access(tmp_path, MIG_INSTANCES, replace(DOCKER, runtimes=("nvidia",)))


@pytest.mark.parametrize(
    ("names", "expected", "suffix"),
    [
        (("0", "1", "all"), ("nvidia.com/gpu=0", "nvidia.com/gpu=1"), "yaml"),
        (
            ("GPU-aaaa-0", "GPU-abbb-1", "0"),
            ("nvidia.com/gpu=GPU-aaaa-0", "nvidia.com/gpu=GPU-abbb-1"),
            "json",
        ),
    ],
)
def test_cdi_names_are_read_from_specification(tmp_path, names, expected, suffix):
    spec = {"cdiVersion": "0.6.0", "kind": "nvidia.com/gpu", "devices": [{"name": name} for name in names]}
    create(tmp_path, f"etc/cdi/nvidia.{suffix}", text=json.dumps(spec))
    create(tmp_path, "etc/cdi/other.json", text='{"kind": "vendor.com/nic", "devices": [{"name": "0"}]}')
    create(tmp_path, "etc/cdi/broken.yaml", text="{")
    engine = replace(DOCKER, cdi_folders=("/etc/cdi", "/var/run/cdi"))
    chosen = access(tmp_path, (H200, SECOND), engine)
    assert (chosen.kind, chosen.device_nodes) == ("cdi", expected)
    assert chosen.environment["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_device_nodes_with_driver_libraries(tmp_path):
    create_nodes(tmp_path, 0, 1, 2)
    compiler = f"libnvidia-gpucomp.so.{DRIVER}"
    create(tmp_path, f"opt/real/libcuda.so.{DRIVER}", f"{LIBRARIES}/{compiler}")
    create(tmp_path, f"{LIBRARIES}/libc.so.6", f"{LIBRARIES}/libGLX_nvidia.so.{DRIVER}")
    (tmp_path / LIBRARIES / "libcuda.so.1").symlink_to(tmp_path / f"opt/real/libcuda.so.{DRIVER}")
    chosen = access(tmp_path, (SECOND, H200))
    assert chosen.kind == "devices"
    assert chosen.device_nodes == ("/dev/nvidia0", "/dev/nvidia2", "/dev/nvidiactl", "/dev/nvidia-uvm")
    mounts = {mount.container: mount.host for mount in chosen.mounts if mount.read_only}
    assert mounts == {
        f"{CONTAINER_LIBRARIES}/libcuda.so.1": tmp_path / f"opt/real/libcuda.so.{DRIVER}",
        f"{CONTAINER_LIBRARIES}/{compiler}": tmp_path / LIBRARIES / compiler,
    }
    assert chosen.environment == {
        "CUDA_VISIBLE_DEVICES": "GPU-abbb-1,GPU-aaaa-0",
        "NVIDIA_VISIBLE_DEVICES": "void",
        "LD_LIBRARY_PATH": CONTAINER_LIBRARIES,
    }
    # The driver's folder is where the linker finds NVML; any library can be loaded.
    shutil.copy(_psutil_linux.__file__, tmp_path / "libnvidia-ml.so.1")
    code = "from harness.engines.gpu_access import driver_folder; print(driver_folder())"
    assert output_of(sys.executable, "-c", code, LD_LIBRARY_PATH=str(tmp_path)).strip() == str(tmp_path)


def test_error_lists_missing_parts(tmp_path):
    with pytest.raises(GpuError) as raised:
        access(tmp_path)
    for reason in ("no NVIDIA Container Toolkit", "not support CDI", "/dev/nvidia2 is missing"):
        assert reason in raised.value.message
    assert "nvidia-modprobe" in raised.value.hint
    for unknown in (replace(H200, minor_number=None), MIG_INSTANCES[0]):
        with pytest.raises(GpuError, match=r"device nodes of .* are unknown"):
            access(tmp_path, (unknown,))
    create_nodes(tmp_path, 2)
    (tmp_path / "dev/nvidia-uvm").unlink()
    with pytest.raises(GpuError, match="/dev/nvidia-uvm is missing"):
        access(tmp_path)
    create_nodes(tmp_path, 2)
    create(tmp_path, "etc/cdi/nvidia.yaml", text="kind: nvidia.com/gpu\ndevices:\n- name: '7'\n")
    with pytest.raises(GpuError) as raised:
        access(tmp_path, engine=replace(DOCKER, cdi_folders=("/etc/cdi",)))
    assert "does not list GPU-aaaa-0" in raised.value.message
    assert "no libcuda.so.1" in raised.value.message


def test_secrets_of_an_image_are_hidden_with_those_of_the_run():
    spec = replace(
        SPEC,
        hidden=("given-1",),
        environment={PRIVATE: json.dumps({"arguments": ["a"], "hidden": ["given-1"]})},
    )
    of_image = {
        "HF_TOKEN": "hf_of-the-image",
        "LANG": "C.UTF-8",
        "PATH": "/usr/local/bin:/usr/bin",
        "TOKENIZERS_PARALLELISM": "false",
    }
    found = with_secrets_of(spec, of_image)
    assert found.hidden == ("given-1", "hf_of-the-image")
    assert json.loads(found.environment[PRIVATE]) == {
        "arguments": ["a"],
        "hidden": ["given-1", "hf_of-the-image"],
    }
    assert with_secrets_of(SPEC, of_image).hidden == ("hf_of-the-image",)
    assert with_secrets_of(SPEC, {"LANG": "C.UTF-8"}) is SPEC
