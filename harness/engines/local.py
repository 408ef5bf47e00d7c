"""The engine where there is none: the same trial as a plain process of this host, with nothing isolated."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import platformdirs
import psutil

from harness.cpuset import cpu_numbers
from harness.engines import OUT_DIR, ContainerSpec, Mount
from harness.engines.local_process import LocalProcess, clear_away
from harness.engines.owner import current_owner, owner_from, start_ticks
from harness.engines.recipe import NO_GPU, init_source
from harness.errors import EngineError
from harness.model.run import EngineInfo
from workloads.protocol import MEMORY_ENV

# Everything of a trial lies under this folder in a container, and under a private one here.
ROOT = "/tfbench"
# What of the harness' own environment a trial may see: no settings of Keras, Python or a proxy.
PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH")
_CONTAINER_PATH = re.compile(rf"(?<![\w./-]){ROOT}(?![\w.-])")
_PYTHONS = ("python", "python3")


class LocalEngine:
    """Run trials as processes; `ImageInfo.reference` is the path of the Python to run them with.

    A trial's CPU numbers are kept to. Memory, process and time limits are not: nothing short of a
    container can set them without breaking CUDA's address space or other programs of this user.

    Args:
        state: folder for what has to outlive the harness; None for the user's own state folder.
    """

    def __init__(self, state: Path | None = None) -> None:
        self._state = state

    def connect(self) -> EngineInfo:
        """Make sure of the state folder.

        Raises:
            EngineError: it cannot be written.
        """
        try:
            self._running.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EngineError(
                f"The local engine cannot write to {self._running}: {error.strerror}.",
                hint="Set XDG_STATE_HOME to a writable folder.",
            ) from error
        return EngineInfo(name="local", version=platform.python_version(), isolated=False)

    def start(self, spec: ContainerSpec) -> LocalProcess:
        """Start a trial.

        Raises:
            EngineError: the process cannot be started, or not be recorded; nothing is left of it.
        """
        root = Path(tempfile.mkdtemp(prefix="tfbench-"))
        try:
            (root / "home").mkdir()
            self._link(spec, root)
            _translate_spec(spec.out / "spec.json", root)
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
        except OSError as error:
            clear_away(root)
            raise EngineError(
                f"Trial {spec.trial_id} could not be started: {error}.",
                hint="Check free disk space and the local environment.",
            ) from error
        record = self._running / f"{process.pid}.json"
        started = start_ticks(process.pid) or 0
        facts = {"process": process.pid, "process_started": started, "root": str(root)}
        local = LocalProcess(process=process, record=record, root=root)
        local.watch()
        try:
            record.write_text(json.dumps({**current_owner().labels(), **facts}), encoding="utf-8")
        except OSError as error:
            local.remove()
            raise EngineError(
                f"The local engine cannot write to {record}: {error.strerror}.",
                hint="Free some space, or set XDG_STATE_HOME to a writable folder.",
            ) from error
        return local

    def remove_stale(self) -> int:
        """End processes whose harness is gone and remove what they left; return how many were found."""
        here = current_owner()
        removed = 0
        for record in sorted(self._running.glob("*.json")):
            try:
                facts: dict[str, Any] = json.loads(record.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                # Another harness is writing or removing it at this moment.
                continue
            owner = owner_from(facts)
            if owner is None or not owner.gone_for(here):
                continue
            if owner.boot == here.boot:
                _end(int(facts["process"]), int(facts["process_started"]))
            clear_away(Path(facts["root"]))
            record.unlink(missing_ok=True)
            removed += 1
        return removed

    def close(self) -> None:
        """Do nothing: there is no connection."""

    @property
    def _running(self) -> Path:
        state = self._state or platformdirs.user_state_path("tfbench")
        return state / "running"

    def _link(self, spec: ContainerSpec, root: Path) -> None:
        """Lay out the container's folders as links under the private root."""
        for mount in (*spec.mounts, Mount(container=OUT_DIR, host=spec.out, read_only=False)):
            link = Path(_translated(mount.container, root))
            if not link.is_relative_to(root):
                # The driver's libraries: here they are where they always were.
                continue
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
    """Return `text` with every path below the container's root made one below ours."""
    return _CONTAINER_PATH.sub(lambda _: str(root), text)


def _translate_spec(path: Path, root: Path) -> None:
    """Make the container's paths in a trial's spec.json ours: its driver opens them as they stand."""
    if not path.exists():
        return
    spec: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    ours = {
        name: _translated(value, root) if isinstance(value, str) else value for name, value in spec.items()
    }
    path.write_text(json.dumps(ours), encoding="utf-8")


def _end(pid: int, started: int) -> None:
    """Kill a process and its descendants, unless the id has gone to another process."""
    if start_ticks(pid) != started:
        return
    try:
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return
    for process in family:
        try:
            process.kill()
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(family, timeout=10)
