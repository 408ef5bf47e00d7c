"""An engine whose containers meet what a case plants around them: neighbours, and a limited disk."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from benchmarks.truth.case import Surroundings
from harness.cgroups import UNIFIED, NoCgroupError, locate
from harness.engines import DATA_DIR, Container, ContainerSpec, Engine, Exit
from harness.errors import EngineError
from harness.model.run import EngineInfo

BUSY = "import os\nfor _ in range({others}): os.fork() or exec('while True: pass')\nwhile True: pass"


class PlantingEngine:
    """An engine that starts every container amid `around`; all else is the inner engine's."""

    def __init__(self, inner: Engine, around: Surroundings) -> None:
        self._inner = inner
        self._around = around

    def connect(self) -> EngineInfo:
        """Reach the engine."""
        return self._inner.connect()

    def start(self, spec: ContainerSpec) -> Container:
        """Start a trial, its neighbours first.

        Raises:
            EngineError: the engine refuses, or the disk cannot be limited here.
        """
        neighbours = (
            [Neighbour(self._inner, spec, self._around.neighbours)] if self._around.neighbours else []
        )
        try:
            container = self._inner.start(spec)
        except BaseException:
            _end(neighbours)
            raise
        planted = PlantedContainer(container, neighbours)
        if self._around.disk_read_bytes_per_s:
            data = next(mount.host for mount in spec.mounts if mount.container == DATA_DIR)
            try:
                limit_reads(container.pid, data, self._around.disk_read_bytes_per_s)
            except (OSError, NoCgroupError) as error:
                planted.kill()
                planted.remove()
                raise EngineError(
                    f"The disk of a container cannot be limited here: {error}.",
                    hint="Run as root beside the engine, or leave the case out.",
                ) from error
        return planted

    def remove_stale(self) -> int:
        """Remove what an earlier harness left behind."""
        return self._inner.remove_stale()

    def close(self) -> None:
        """Let go of the engine."""
        self._inner.close()


class Neighbour:
    """A container that keeps CPUs busy beside a trial, and its folder.

    Args:
        engine: starts it.
        spec: the trial's.
        processes: how many are busy.

    Raises:
        EngineError: the engine refuses.
    """

    def __init__(self, engine: Engine, spec: ContainerSpec, processes: int) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tfbench-neighbour-", ignore_cleanup_errors=True)
        code = BUSY.format(others=processes - 1)
        changed = replace(
            spec, command=("python3", "-c", code), out=Path(self._folder.name), mounts=(), gpu=None,
            cpu_quota=None, trial_id=f"{spec.trial_id}-neighbour",
        )  # fmt: skip
        try:
            self._container = engine.start(changed)
        except BaseException:
            self._folder.cleanup()
            raise

    def end(self) -> None:
        """End it and remove its folder; an engine that is lost is no error."""
        with suppress(EngineError):
            self._container.kill()
            self._container.remove()
        self._folder.cleanup()


class PlantedContainer:
    """A trial whose neighbours end with it."""

    def __init__(self, inner: Container, neighbours: Sequence[Neighbour]) -> None:
        self._inner = inner
        self._neighbours = neighbours

    @property
    def id(self) -> str:
        """The engine's name for it."""
        return self._inner.id

    @property
    def pid(self) -> int | None:
        """Process id on this host of the container's first process."""
        return self._inner.pid

    def poll(self) -> Exit | None:
        """Return how it ended, or None while it runs."""
        return self._inner.poll()

    def log(self) -> str:
        """Return the end of its output."""
        return self._inner.log()

    def kill(self) -> None:
        """End it and its neighbours."""
        _end(self._neighbours)
        self._neighbours = ()
        self._inner.kill()

    def remove(self) -> None:
        """Remove what is left of it."""
        _end(self._neighbours)
        self._neighbours = ()
        self._inner.remove()


def _end(neighbours: Sequence[Neighbour]) -> None:
    for one in neighbours:
        one.end()


def limit_reads(pid: int | None, folder: Path | None, bytes_per_s: int) -> None:
    """Limit what a container reads from the disk that `folder` lies on, in either version of cgroups.

    Raises:
        OSError: not permitted, or no such disk.
        NoCgroupError: the container's cgroup is not to be seen from here.
    """
    if folder is None:
        raise OSError("the data lie in a volume")
    cgroup = locate(Path("/"), pid)
    disk = disk_of(folder)
    if cgroup.version == 1:
        file, text = cgroup.folders["blkio"] / "blkio.throttle.read_bps_device", f"{disk} {bytes_per_s}"
    else:
        file, text = cgroup.folders[UNIFIED] / "io.max", f"{disk} rbps={bytes_per_s}"
    file.write_text(text, encoding="ascii")


def disk_of(folder: Path) -> str:
    """Return "major:minor" of the whole disk that holds a folder; limits of partitions are refused."""
    number = folder.stat().st_dev
    place = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve(strict=True)
    if (place / "partition").exists():
        place = place.parent
    return (place / "dev").read_text(encoding="ascii").strip()
