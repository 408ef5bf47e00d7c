"""The engine without containers: trials are processes on this host, without isolation."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from harness.defaults import LOG_BYTES
from harness.engines import LOCAL, OUT_DIR, ContainerSpec, Exit, Mount
from harness.engines.container_settings import NO_GPU, init_source
from harness.engines.docker import oom_kills
from harness.engines.owner import current_owner, owner_has_ended
from harness.errors import EngineError
from harness.model.platform import EngineInfo
from harness.untrusted import remove_tree

WARNING = (
    "Engine: local. NOT ISOLATED: workloads run as plain processes, without containers. "
    "To use containers, run: make engine"
)
# Container paths below this are replaced with paths below a private folder.
ROOT = "/tfbench"
# Variables that trials inherit; settings of Keras, Python and proxies are not among them.
INHERITED = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")
_CONTAINER_PATH = re.compile(rf"(?<![\w./-]){ROOT}(?![\w.-])")
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
    """

    info = EngineInfo(name=LOCAL, version=platform.python_version(), isolated=False)

    def start(self, spec: ContainerSpec) -> LocalProcess:
        """Start a trial; a failed start leaves nothing behind."""
        root = Path(tempfile.mkdtemp(prefix=_PREFIX))
        try:
            (root / _OWNER).write_text(str(current_owner()), encoding="utf-8")
            (root / "home").mkdir()
            self._link(spec, root)
            if (spec_file := spec.out / "spec.json").exists():  # contains container paths
                spec_file.write_text(_host_paths(spec_file.read_text("utf-8"), root), "utf-8")
            python = spec.image.reference
            command = [_host_paths(word, root) for word in spec.command]
            if command[0] in _PYTHONS:
                command[0] = python
            # Then this process adopts what survives a first process that is killed.
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            others = psutil.Process().children()
            process = subprocess.Popen(
                [python, "-I", "-S", "-c", init_source(), spec.cpus, *command],
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
        return LocalProcess(process, root, others)

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

    def _link(self, spec: ContainerSpec, root: Path) -> None:
        """Create links to the mounted folders below the private root."""
        for mount in (*spec.mounts, Mount(container=OUT_DIR, host=spec.out, read_only=False)):
            link = Path(_host_paths(mount.container, root))
            if link.is_relative_to(root):  # those of --mount are at their own path
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(mount.host.absolute())


def _environment(spec: ContainerSpec, root: Path) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    gpu = {"CUDA_VISIBLE_DEVICES": ",".join(spec.gpu.uuids)} if spec.gpu else dict(NO_GPU)
    specified = {name: _host_paths(value, root) for name, value in spec.environment.items()}
    home = str(root / "home")
    private = {"HOME": home, "TMPDIR": home}
    return {**inherited, **private, "PYTHONDONTWRITEBYTECODE": "1", **gpu, **specified}


def _host_paths(text: str, root: Path) -> str:
    """Replace container paths in `text` with paths below `root`."""
    return _CONTAINER_PATH.sub(lambda _: str(root), text)


class LocalProcess:
    """A started trial: its first process (container_init.py), which ends with its standard input, and its folder."""

    def __init__(
        self, process: subprocess.Popen[bytes], root: Path, others: Sequence[psutil.Process]
    ) -> None:
        self._process = process
        self.pid: int | None = process.pid
        self.id = str(process.pid)
        self._root = root
        self._others = (psutil.Process(process.pid), *others)
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

    def log(self) -> str:
        """Return the last 64 KiB of stdout and stderr."""
        if self._process.poll() is not None:
            self._reader.join(_GRACE_S)
        return bytes(self._log).decode("utf-8", "replace")

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
        # Children whose children become ours. No other child is started during a trial.
        while not alive and (orphans := set(psutil.Process().children()) - set(self._others)):
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
                del self._log[:-LOG_BYTES]
