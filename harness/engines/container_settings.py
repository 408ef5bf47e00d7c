"""Convert a trial's specification to hardened container options, and own its folders."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from docker.types import DeviceRequest, LogConfig, Ulimit
from docker.types import Mount as ApiMount

from harness.defaults import LOG_BYTES, SHARED_MEMORY_BYTES, TMP_BYTES, TMP_SHARE
from harness.engines import DATA_DIR, WORKLOADS_DIR, ContainerSpec, GpuAccess, Mount
from harness.engines.docker_client import Daemon
from harness.engines.owner import Owner
from harness.errors import EngineError, UsageError
from harness.secrets import searched
from harness.untrusted import printable
from workloads.hiding import names_secret, without, without_secrets
from workloads.protocol import PRIVATE

UNPRIVILEGED = 10001
# Container labels.
OWNER, RUN, TRIAL = "tfbench.owner", "tfbench.run", "tfbench.trial"
# Prevents NVIDIA's images and runtimes from adding GPUs by default.
NO_GPU: Mapping[str, str] = {"CUDA_VISIBLE_DEVICES": "-1", "NVIDIA_VISIBLE_DEVICES": "void"}
# Variables of which the image's values are kept after ours.
_SEARCH_PATHS = {"LD_LIBRARY_PATH", "PYTHONPATH"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The user of a container's processes.

    Attributes:
        user: "uid:gid" inside the container.
        host_ids: uid and gid that must own writable host folders; None if no change is needed.
        user_namespace: user namespace mode, "" for the engine's default.
    """

    user: str
    host_ids: tuple[int, int] | None
    user_namespace: str = ""


def identity_for(daemon: Daemon, uid: int, gid: int) -> Identity:
    """Return the container user for a harness run by `uid`:`gid`; it is never root on the host."""
    same = Identity(user=f"{uid}:{gid}", host_ids=None)
    if daemon.info.rootless:
        # Rootless Docker maps 0 to its user, and other ids to ones that cannot write here.
        return replace(same, user="0:0")
    namespace = "host" if daemon.user_namespaces else ""
    if uid == 0:
        user, ids = f"{UNPRIVILEGED}:{UNPRIVILEGED}", (UNPRIVILEGED, UNPRIVILEGED)
        return Identity(user=user, host_ids=ids, user_namespace=namespace)
    return replace(same, user_namespace=namespace)


def host_options(
    spec: ContainerSpec, daemon: Daemon, identity: Identity, mounts: tuple[Mount, ...]
) -> dict[str, Any]:
    """Return the keyword arguments of docker's create_host_config."""
    security = ["no-new-privileges"]
    if daemon.selinux:
        # Otherwise bind mounts are unreadable; relabelling the folders would persist after the run.
        security.append("label=disable")
    nodes = spec.gpu.device_nodes if spec.gpu and spec.gpu.kind == "devices" else ()
    # Equal limits disable swap: with swapping, the run would measure the disk.
    limits: dict[str, dict[str, Any]] = {
        "memory": {"mem_limit": spec.memory_bytes, "memswap_limit": spec.memory_bytes},
        "pids": {"pids_limit": spec.pids},
        "cpuset": {"cpuset_cpus": spec.cpus or None},
        "cpu_quota": {"nano_cpus": int(spec.cpu_quota * 1e9) if spec.cpu_quota else None},
    }
    settable = {name: value for kind in limits.keys() & daemon.limits for name, value in limits[kind].items()}
    return {
        "network_mode": None if spec.network else "none",
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": security,
        "userns_mode": identity.user_namespace or None,
        "mounts": [_api_mount(mount) for mount in mounts],
        "tmpfs": {"/tmp": f"rw,exec,nosuid,nodev,mode=1777,size={_tmp_bytes(spec)}"},  # noqa: S108
        "shm_size": SHARED_MEMORY_BYTES,
        "ulimits": [Ulimit(name="core", soft=0, hard=0)],
        "devices": [f"{node}:{node}:rw" for node in nodes],
        "group_add": _groups(nodes) or None,
        "device_requests": _device_requests(spec.gpu) or None,
        "log_config": LogConfig(type="json-file", config={"max-size": "1m", "max-file": "2"}),
        **settable,
    }


def _tmp_bytes(spec: ContainerSpec) -> int:
    """Return the size of /tmp: a script writes its checkpoints there, of large models on large machines."""
    return max(TMP_BYTES, int((spec.memory_bytes or 0) * TMP_SHARE))


def with_inner(mounts: Sequence[Mount], mounted: Collection[str]) -> tuple[Mount, ...]:
    """Return the mounts, and for each that is read-only one more for what is mounted below it.

    Older engines make only the outer one read-only.

    Args:
        mounted: paths of this host's file systems.
    """
    inner = [
        replace(mount, container=f"{mount.container}{path.removeprefix(str(host))}", host=Path(path))
        for mount in mounts
        if mount.read_only and (host := Path(os.path.realpath(mount.host)))
        for path in sorted(mounted)
        if host in Path(path).parents
    ]
    return (*mounts, *inner)


def container_options(
    spec: ContainerSpec, identity: Identity, owner: Owner, image_environment: Mapping[str, str]
) -> dict[str, Any]:
    """Return the keyword arguments of docker's create_container, without host_config."""
    return {
        "image": spec.image.digest or spec.image.reference,
        # Overrides the image's entry point and command.
        "entrypoint": ["python3", "-I", "-S", "-c", init_source(), "", *spec.command],
        "user": identity.user,
        "environment": environment(spec, image_environment),
        # Without a network, no other name of this host is found.
        "hostname": None if spec.network else "localhost",
        "working_dir": "/tmp",  # noqa: S108 - a private tmpfs
        "stdin_open": True,
        "labels": {OWNER: str(owner), RUN: spec.run_id, TRIAL: spec.trial_id},
    }


def with_secrets_of(spec: ContainerSpec, image_environment: Mapping[str, str]) -> ContainerSpec:
    """Return the specification with the secrets among an image's own variables hidden as well."""
    named = {name: value for name, value in image_environment.items() if names_secret(name, value)}
    if not (found := searched(named, ())):
        return spec
    hidden = (*spec.hidden, *found)
    told = json.loads(spec.environment.get(PRIVATE, "{}")) | {"hidden": hidden}
    return replace(spec, hidden=hidden, environment={**spec.environment, PRIVATE: json.dumps(told)})


def environment(spec: ContainerSpec, image_environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables added to the image's, of which search paths follow ours."""
    gpu = spec.gpu.environment if spec.gpu else NO_GPU
    variables = {"HOME": "/tmp", **gpu, **spec.environment}  # noqa: S108
    for name in _SEARCH_PATHS & variables.keys():
        variables[name] = ":".join(filter(None, (variables[name], image_environment.get(name))))
    return variables


def shown(output: bytes, hidden: Sequence[str]) -> str:
    """Return the end of a trial's output, at most LOG_BYTES, as its log shows it."""
    text = output[-LOG_BYTES:].decode("utf-8", "replace")
    if hidden and len(output) > LOG_BYTES:
        text = text.partition("\n")[2]  # the first line may begin within a secret
    return without_secrets(without(text, hidden))


def init_source() -> str:
    """Return the source of a trial's first process."""
    return Path(__file__).with_name("container_init.py").read_text(encoding="utf-8")


def check_mountable(folder: Path, hint: str = "Rename it.") -> str:
    """Return a folder's absolute path, as engines want it.

    Raises:
        UsageError: engines cannot mount it.
    """
    source = str(folder.absolute())
    if (name := printable(source)) != source:
        raise UsageError(
            f"Container engines cannot mount {name}: its name has characters that cannot be printed.",
            hint=hint,
        )
    return source


def _api_mount(mount: Mount) -> ApiMount:
    source = check_mountable(mount.host)
    return ApiMount(target=mount.container, source=source, type="bind", read_only=mount.read_only)


def _groups(nodes: tuple[str, ...]) -> list[int]:
    """Return the groups of device nodes that are not world-writable."""
    states = [os.stat(node) for node in nodes]  # noqa: PTH116 - strings from a GpuAccess
    return sorted({state.st_gid for state in states if not state.st_mode & stat.S_IWOTH})


def _device_requests(gpu: GpuAccess | None) -> list[DeviceRequest]:
    match gpu:
        case GpuAccess(kind="cdi"):
            return [DeviceRequest(driver="cdi", device_ids=list(gpu.device_nodes))]
        case GpuAccess(kind="toolkit"):
            capabilities = [["gpu", "compute", "utility"]]
            return [DeviceRequest(driver="nvidia", device_ids=list(gpu.uuids), capabilities=capabilities)]
    return []


@contextmanager
def accessible(mounts: Sequence[Mount], ids: tuple[int, int] | None) -> Iterator[None]:
    """Make `ids` (uid, gid) the owner of writable mounts during the block; no change if it is None.

    Raises:
        EngineError: a read-only mount is not readable by others.
    """
    if ids is None:
        yield
        return
    check_readable(mounts)
    owners: dict[Path, tuple[int, int]] = {}
    try:
        for folder in (mount.host for mount in mounts if not mount.read_only):
            state = folder.stat()
            owners[folder] = (state.st_uid, state.st_gid)
            _chown(folder, ids)
        yield
    finally:
        for folder, owner in owners.items():
            if folder.exists():
                _chown(folder, owner)


def check_readable(mounts: Iterable[Mount]) -> None:
    """Raise EngineError if a read-only mount is not readable by others, e.g. because of a strict umask.

    Of the user's folders only themselves must be: they may hold anything.
    """
    for folder, container_path in ((mount.host, mount.container) for mount in mounts if mount.read_only):
        users = not container_path.startswith((WORKLOADS_DIR, DATA_DIR))
        inside = sorted(folder.iterdir()) if folder.is_dir() and not users else ()
        for path in (folder, *inside):
            if path.name == "__pycache__":  # of this Python, not of the container's
                continue
            try:
                state = path.stat()
            except FileNotFoundError:  # a dangling link, such as an editor's lock
                continue
            needed = 0o005 if stat.S_ISDIR(state.st_mode) else 0o004
            if state.st_mode & needed != needed:
                # It may be a home folder, which should not be made readable.
                raise EngineError(
                    f"The container's user, who is not root, cannot read {path}.",
                    hint="Move the script and the files it needs to a folder that others may read."
                    if users
                    else f"Make it readable: chmod -R o+rX {folder}",
                )


def _chown(folder: Path, ids: tuple[int, int]) -> None:
    # Not in Python, whose recursion a container's folders may exceed. Links are not followed.
    owner = "{}:{}".format(*ids)
    command = ["chown", "--recursive", "--no-dereference", owner, "--", str(folder)]
    subprocess.run(command, stderr=subprocess.DEVNULL, check=False)
