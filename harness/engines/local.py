"""The engine without containers: trials are processes on this host, without isolation.

They can write to folders of their own only; see read_only.py. Where the kernel does not allow that, a script runs
beside a copy of its folder.
"""

from __future__ import annotations

import ctypes
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import psutil

from harness.defaults import COPIED_BYTES, COPIED_FILES, LOG_BYTES
from harness.engines import FILE_DIR, LOCAL, OUT_DIR, ContainerSpec, Exit, Mount
from harness.engines.container_settings import NO_GPU, init_source, shown
from harness.engines.docker import oom_kills
from harness.engines.owner import current_owner, owner_has_ended
from harness.errors import EngineError, UsageError
from harness.model.platform import EngineInfo
from harness.untrusted import remove_tree

WARNING = (
    "Engine: local. NOT ISOLATED: workloads run as plain processes, without containers. "
    "To use containers: --engine docker, which `make engine` installs."
)
UNPROTECTED = (
    "This system allows no namespaces: scripts run beside a copy of their folder, and absolute paths lead to your own "
    "files, as in plain Python."
)
# Container paths below this are replaced with paths below a private folder.
ROOT = "/tfbench"
# Folders that trials have of their own; see read_only.py.
_REPLACED = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108
# Variables that trials inherit; settings of Keras, Python and proxies are not among them.
INHERITED = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")
_CONTAINER_PATH = re.compile(rf"(?<![\w./-]){ROOT}(?![\w.-])")
# A variable that is one path or several; others, such as arguments of the script, are not the engine's to change.
_PATHS = re.compile(rf"{ROOT}[^:{{}}\"]*(?::[^{{}}\"]*)?")
_PYTHONS = ("python", "python3")
# Prefix of a trial's private temporary folder, and the name of its owner record.
_PREFIX, _OWNER = "tfbench-", "owner"
# Time for the first process to kill all others before its process group is killed.
_GRACE_S = 10.0
_PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
# Counts OOM kills since boot, in all cgroups.
_VMSTAT = Path("/proc/vmstat")


class LocalEngine:
    """Run trials as processes of the Python at `ImageInfo.reference`.

    The CPU set is applied; other limits are not, because rlimits would break CUDA or affect the user's other
    programs.

    Args:
        protects: whether what trials may not write to is read-only for them; None for whether the kernel allows that.
    """

    info = EngineInfo(name=LOCAL, version=platform.python_version(), isolated=False)

    def __init__(self, *, protects: bool | None = None) -> None:
        self.protects = can_protect() if protects is None else protects
        # First processes of trials, which may run beside each other.
        self._started: set[psutil.Process] = set()

    def require_safe(self, folders: Iterable[Path], mounts: Iterable[Path]) -> None:
        """Raise UsageError if scripts in these folders could not run, or write to the user's files by these mounts."""
        if os.pathsep in (temporary := tempfile.gettempdir()):
            raise UsageError(
                f"The folder of temporary files, {temporary}, has a colon in its name, which PYTHONPATH cannot have.",
                hint="Set TMPDIR to another one.",
            )
        if self.protects:
            return
        for path in mounts:
            raise UsageError(
                f"This system does not let tfbench make --mount {path} read-only: it allows no namespaces.",
                hint="Use --engine docker, or copy what the script reads into its folder and leave --mount out.",
            )
        for folder in folders:
            for _ in _files_to_copy(folder):
                pass

    def start(self, spec: ContainerSpec) -> LocalProcess:
        """Start a trial; a failed start leaves nothing behind."""
        root = Path(tempfile.mkdtemp(prefix=_PREFIX)).absolute()
        try:
            (root / _OWNER).write_text(str(current_owner()), encoding="utf-8")
            (root / "home").mkdir()
            self._show(spec, root)
            python = spec.image.reference
            command = [_host_paths(word, root) for word in spec.command]
            if command[0] in _PYTHONS:
                command[0] = python
            # Then this process adopts what survives a first process that is killed.
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            if spec.gpu and self.protects:
                _make_device_nodes()
            others = {*psutil.Process().children()} - self._started
            command = [python, "-I", "-S", "-c", init_source(), spec.cpus, *command]
            if self.protects:
                command = _read_only(command, spec, root)
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=_environment(spec, root),
                cwd=root / "home",
                start_new_session=True,
            )
            assert process.stdin is not None  # a pipe
            with suppress(BrokenPipeError):  # it has already ended
                os.write(process.stdin.fileno(), b"\n")
        except OSError as error:
            remove_tree(root)
            raise EngineError(
                f"Could not start trial {spec.trial_id}: {error}.",
                hint="Check free disk space and the local environment.",
            ) from error
        self._started.add(psutil.Process(process.pid))
        return LocalProcess(process, root, others | self._started, self._started, spec.hidden)

    def remove_stale(self) -> None:
        """Remove private folders of killed harnesses."""
        for record in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_OWNER}"):
            with suppress(OSError):  # removed in the meantime
                own = record.stat().st_uid == os.getuid()
                if own and owner_has_ended(record.read_text(encoding="utf-8", errors="replace")):
                    remove_tree(record.parent)

    def answers(self) -> bool:
        """Return True: it needs no service."""
        return True

    def close(self) -> None:
        """Do nothing: there is no connection."""

    def _show(self, spec: ContainerSpec, root: Path) -> None:
        """Create links to the mounted folders below the private root."""
        shown: list[Path] = []
        for mount in sorted((*spec.mounts, _out(spec)), key=lambda each: each.container):
            link = Path(_host_paths(mount.container, root))
            within = any(each in link.parents for each in shown)  # a link leads there already
            if link.is_relative_to(root) and not within:  # those of --mount are at their own path
                shown.append(link)
                link.parent.mkdir(parents=True, exist_ok=True)
                own = mount.container == FILE_DIR
                if own and not self.protects:
                    _copy(mount.host, link)
                elif own and _is_replaced(mount.host):
                    link.mkdir()
                else:
                    # By its real path, the only one by which a folder can be written.
                    link.symlink_to(os.path.realpath(mount.host))


def _out(spec: ContainerSpec) -> Mount:
    return Mount(container=OUT_DIR, host=spec.out, read_only=False)


@cache
def can_protect() -> bool:
    """Return whether this kernel lets processes have mounts of their own."""
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as folder:
        folders = {"tmp": folder, "writable": [folder], "visible": [sys.executable], "shown": []}
        command = [sys.executable, "-I", "-S", "-c", _read_only_source(), json.dumps(folders), "/bin/true"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _make_device_nodes() -> None:
    """Make the nodes of the driver that CUDA makes at its first use: trials cannot write to /dev."""
    with suppress(OSError, subprocess.TimeoutExpired):  # it is not installed
        subprocess.run(["nvidia-modprobe", "-u", "-c=0"], capture_output=True, check=False, timeout=30)


def _is_replaced(folder: Path) -> bool:
    """Return whether a script's folder is one that trials see another one of."""
    return os.path.realpath(folder) in _REPLACED


def _read_only_source() -> str:
    return Path(__file__).with_name("read_only.py").read_text(encoding="utf-8")


def _read_only(command: Sequence[str], spec: ContainerSpec, root: Path) -> list[str]:
    """Return the command for which only the trial's folders can be written."""
    python = spec.image.reference
    seen = [mount.host.absolute() for mount in (*spec.mounts, _out(spec))]
    # The environment, and the Python that it was made from.
    seen += [root, *(Path(path).parents[1] for path in (python, os.path.realpath(python)))]
    own = [root, *(mount.host for mount in (*spec.mounts, _out(spec)) if not mount.read_only)]
    apart = [mount for mount in spec.mounts if mount.container == FILE_DIR and _is_replaced(mount.host)]
    for mount in apart:
        seen.remove(mount.host.absolute())
    folders = {
        "shown": [[_host_paths(mount.container, root), str(mount.host)] for mount in apart],
        "tmp": os.path.realpath(root / "home"),
        "writable": [os.path.realpath(path) for path in own],
        "visible": sorted({name for path in seen for name in (str(path), os.path.realpath(path))}),
    }
    return [python, "-I", "-S", "-c", _read_only_source(), json.dumps(folders), *command]


def _copy(source: Path, target: Path) -> None:
    """Copy a folder; links are copies of what they lead to."""
    target.mkdir()
    for path, name in _files_to_copy(source):
        copy = target / name
        with suppress(OSError):  # gone or not readable, also for the script
            if path.is_dir():
                copy.mkdir(exist_ok=True)
            else:
                shutil.copyfile(path, copy)
                shutil.copymode(path, copy)


def _files_to_copy(source: Path) -> Iterator[tuple[Path, str]]:
    """Yield the folders and files below a folder, through links, and their names in it.

    Raises:
        UsageError: they are too large.
    """
    room, number = COPIED_BYTES, 0
    pending = [(source, "", frozenset([os.path.realpath(source)]))]
    while pending:
        folder, prefix, above = pending.pop()
        try:
            entries = [*os.scandir(folder)]
        except OSError:
            continue
        names = {entry.name for entry in entries}
        if prefix and {"plan.json", "manifest.json"} <= names:  # a run of this script
            continue
        for entry in entries:
            with suppress(OSError):  # gone
                path, name = Path(entry.path), f"{prefix}{entry.name}"
                if entry.is_dir():
                    real = os.path.realpath(path)
                    if real in above or entry.name in ("__pycache__", ".git"):
                        continue
                    pending.append((path, f"{name}/", above | {real}))
                elif entry.is_file():
                    room -= entry.stat().st_size
                else:
                    continue
                number += 1
                yield path, name
            if room < 0 or number > COPIED_FILES:
                raise UsageError(
                    f"{source} has more than {COPIED_BYTES >> 20} MiB or {COPIED_FILES:,} files. Scripts run beside a "
                    "copy of their folder, because this system allows no namespaces.",
                    hint="Use --engine docker, or move the script to a folder with only what it reads.",
                )


def _environment(spec: ContainerSpec, root: Path) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    gpu = {"CUDA_VISIBLE_DEVICES": ",".join(spec.gpu.uuids)} if spec.gpu else dict(NO_GPU)
    specified = {
        name: _host_paths(value, root) if _PATHS.fullmatch(value) else value
        for name, value in spec.environment.items()
    }
    home = str(root / "home")
    private = {"HOME": home, "TMPDIR": home}
    return {**inherited, **private, "PYTHONDONTWRITEBYTECODE": "1", **gpu, **specified}


def _host_paths(text: str, root: Path) -> str:
    """Replace container paths in `text` with paths below `root`."""
    return _CONTAINER_PATH.sub(lambda _: str(root), text)


class LocalProcess:
    """A started trial: its first process (container_init.py), which ends with its standard input, and its folder."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        root: Path,
        others: Iterable[psutil.Process],
        started: set[psutil.Process],
        hidden: Sequence[str],
    ) -> None:
        self._hidden = hidden
        self._process = process
        self.pid: int | None = process.pid
        self.id = str(process.pid)
        self._root = root
        self._others, self._started = set(others), started
        self._log = bytearray()
        self._reader = threading.Thread(target=self._read, name=f"log-{process.pid}", daemon=True)
        self._reader.start()
        self._killed = False
        self._kills_before = oom_kills(_VMSTAT)
        self._exit: Exit | None = None

    def poll(self) -> Exit | None:
        """Return how it ended; None while it is running."""
        if self._exit is None and (code := self._process.poll()) is not None:
            # The counter covers the whole host, so a SIGKILL that we did not send is required too.
            foreign_kill = code == -signal.SIGKILL and not self._killed
            oom = foreign_kill and oom_kills(_VMSTAT) > self._kills_before
            self._exit = Exit(code=code, out_of_memory=oom)
        return self._exit

    def paused(self) -> bool:
        """Return whether somebody has stopped its first process."""
        try:
            return self.pid is not None and psutil.Process(self.pid).status() == psutil.STATUS_STOPPED
        except psutil.NoSuchProcess:
            return False

    def seen(self, path: str) -> str:
        """Return a path of a container as the process sees it: below its private folder."""
        return _host_paths(path, self._root)

    def log(self) -> str:
        """Return the last 64 KiB of stdout and stderr, without what is hidden."""
        if self._process.poll() is not None:
            self._reader.join(_GRACE_S)
        return shown(bytes(self._log), self._hidden)

    def kill(self) -> None:
        """Kill it and its descendants; no error if it has ended."""
        if self._process.poll() is None:
            self._killed = True
            self._close_stdin()
            try:
                self._process.wait(_GRACE_S)
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        alive: list[psutil.Process] = []
        # Children whose children become ours. No other child is started during a run.
        while not alive and (orphans := set(psutil.Process().children()) - self._others - self._started):
            for orphan in orphans:
                with suppress(psutil.Error):
                    orphan.kill()
            _, alive = psutil.wait_procs(orphans, _GRACE_S)

    def remove(self) -> None:
        """Kill it and remove its private folder; no error if they are already gone."""
        self.kill()
        self.poll()
        self._close_stdin()
        self._reader.join(_GRACE_S)
        remove_tree(self._root)

    def _close_stdin(self) -> None:
        assert self._process.stdin is not None  # a pipe
        with suppress(OSError):
            self._process.stdin.close()

    def _read(self) -> None:
        assert self._process.stdout is not None  # a pipe
        with self._process.stdout as stream:
            while chunk := os.read(stream.fileno(), 2**16):
                self._log += chunk
                del self._log[: -LOG_BYTES - 1]
