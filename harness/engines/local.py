"""The engine without containers: trials are processes of this host, without isolation."""

from __future__ import annotations

import os
import platform
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from harness.cpuset import cpu_numbers
from harness.engines import OUT_DIR, ContainerSpec, Exit, Mount
from harness.engines.container import LOG_BYTES, oom_kills
from harness.engines.container_settings import NO_GPU, init_source
from harness.engines.owner import current_owner, owner_from
from harness.errors import EngineError
from harness.model.platform import EngineInfo
from workloads.protocol import MEMORY_ENV, SHARED_MEMORY

# The container's paths below this become paths below a private folder.
ROOT = "/tfbench"
# Variables that trials inherit: no settings of Keras, Python or a proxy.
PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")
_CONTAINER_PATH = re.compile(rf"(?<![\w./-]){ROOT}(?![\w.-])")
_PYTHONS = ("python", "python3")
# A trial's private folder among temporary files, and the record of its owner.
_PREFIX, _OWNER = "tfbench-", "owner"
# Time for the first process to kill all others, before its group is killed.
_GRACE_S = 10.0
# Counts OOM kills since boot, in any control group.
_VMSTAT = Path("/proc/vmstat")


class LocalEngine:
    """Run trials as processes of the Python at `ImageInfo.reference`.

    CPU numbers are respected; other limits are not, as rlimits would break CUDA or affect the user's other
    programs.
    """

    @property
    def info(self) -> EngineInfo:
        """The engine as the manifest describes it."""
        return EngineInfo(name="local", version=platform.python_version(), isolated=False)

    def start(self, spec: ContainerSpec) -> LocalProcess:
        """Start a trial; a failed start leaves nothing behind."""
        root = Path(tempfile.mkdtemp(prefix=_PREFIX))
        try:
            (root / _OWNER).write_text(str(current_owner()), encoding="utf-8")
            (root / "home").mkdir()
            self._link(spec, root)
            if (document := spec.out / "spec.json").exists():  # it has the container's paths
                document.write_text(_translated(document.read_text("utf-8"), root), "utf-8")
            python = spec.image.reference
            words = [_translated(word, root) for word in spec.command]
            if words[0] in _PYTHONS:
                words[0] = python
            process = subprocess.Popen(
                [python, "-I", "-S", "-c", init_source(), ",".join(map(str, cpu_numbers(spec.cpus))), *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=_environment(spec, root),
                cwd=root / "home",
                start_new_session=True,
            )
            assert process.stdin is not None  # a pipe
            with suppress(BrokenPipeError):  # it has ended already
                os.write(process.stdin.fileno(), b"\n")
        except OSError as error:
            clear_away(root)
            raise EngineError(
                f"Trial {spec.trial_id} could not be started: {error}.",
                hint="Check free disk space and the local environment.",
            ) from error
        return LocalProcess(process, root)

    def remove_stale(self) -> int:
        """Remove folders of killed harnesses, whose processes have ended; return how many."""
        here = current_owner()
        removed = 0
        for record in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_OWNER}"):
            with suppress(OSError):  # removed meanwhile
                if record.stat().st_uid != os.getuid():
                    continue
                owner = owner_from(record.read_text(encoding="utf-8", errors="replace"))
                if owner is not None and owner.gone_for(here):
                    clear_away(record.parent)
                    removed += 1
        return removed

    def close(self) -> None:
        """Do nothing: there is no connection."""

    def _link(self, spec: ContainerSpec, root: Path) -> None:
        """Link the container's folders below the private root."""
        for mount in (*spec.mounts, Mount(container=OUT_DIR, host=spec.out, read_only=False)):
            link = Path(_translated(mount.container, root))
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(mount.host.absolute())


def _environment(spec: ContainerSpec, root: Path) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    gpu = {"CUDA_VISIBLE_DEVICES": ",".join(spec.gpu.uuids)} if spec.gpu else dict(NO_GPU)
    given = {name: _translated(value, root) for name, value in spec.environment.items()}
    home = str(root / "home")
    private = {"HOME": home, "TMPDIR": home, MEMORY_ENV: root.name}
    return {**inherited, **private, "PYTHONDONTWRITEBYTECODE": "1", **gpu, **given}


def _translated(text: str, root: Path) -> str:
    """Replace the container's paths in `text` by ours."""
    return _CONTAINER_PATH.sub(lambda _: str(root), text)


class LocalProcess:
    """A started trial: its first process (init.py), which ends when its standard input does, and its folder."""

    def __init__(self, process: subprocess.Popen[bytes], root: Path) -> None:
        self._process = process
        self._root = root
        self._log = bytearray()
        self._reader = threading.Thread(target=self._read, name=f"log-{process.pid}", daemon=True)
        self._reader.start()
        self._killed = False
        self._kills_before = oom_kills(_VMSTAT)
        self._exit: Exit | None = None

    @property
    def id(self) -> str:
        """The process id, as text."""
        return str(self._process.pid)

    @property
    def pid(self) -> int | None:
        """The first process' id."""
        return self._process.pid

    def poll(self) -> Exit | None:
        """Return how it ended, or None while it runs."""
        if self._exit is None and (code := self._process.poll()) is not None:
            # The counter is the whole host's, so it counts only with a SIGKILL that was not ours.
            murdered = code == -signal.SIGKILL and not self._killed
            self._exit = Exit(code=code, out_of_memory=murdered and oom_kills(_VMSTAT) > self._kills_before)
        return self._exit

    def log(self) -> str:
        """Return the last 64 KiB of stdout and stderr."""
        if self._process.poll() is not None:
            self._reader.join(_GRACE_S)
        return bytes(self._log).decode("utf-8", "replace")

    def kill(self) -> None:
        """Kill it and its descendants; no error if it has ended."""
        if self._process.poll() is not None:
            return
        self._killed = True
        self._let_go()
        try:
            self._process.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def remove(self) -> None:
        """Kill it and remove its private folder; no error if nothing is left."""
        self.kill()
        self.poll()
        self._let_go()
        self._reader.join(_GRACE_S)
        clear_away(self._root)

    def _let_go(self) -> None:
        assert self._process.stdin is not None  # a pipe
        with suppress(OSError):
            self._process.stdin.close()

    def _read(self) -> None:
        assert self._process.stdout is not None  # a pipe
        with self._process.stdout as stream:
            while chunk := os.read(stream.fileno(), 2**16):
                self._log += chunk
                del self._log[:-LOG_BYTES]


def clear_away(root: Path) -> None:
    """Remove a trial's private folder and its copies in memory (see workloads/storage.py)."""
    for folder in (root, *Path(SHARED_MEMORY).glob(f"{root.name}-*")):
        shutil.rmtree(folder, ignore_errors=True)
