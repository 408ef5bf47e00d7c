"""An engine that adds busy neighbours and disk limits to its containers."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from benchmarks.truth.case import Environment
from harness.cgroups import UNIFIED, NoCgroupError, locate
from harness.engines import DATA_DIR, Container, ContainerSpec, Engine
from harness.errors import EngineError
from harness.model.platform import EngineInfo

BUSY = "import os\nfor _ in range({others}): os.fork() or exec('while True: pass')\nwhile True: pass"


class PlantingEngine:
    """An engine for one trial in `environment`; `close` removes the neighbours."""

    def __init__(self, inner: Engine, environment: Environment) -> None:
        self._inner = inner
        self._environment = environment
        self._ends = ExitStack()

    @property
    def info(self) -> EngineInfo:
        """Information about the inner engine."""
        return self._inner.info

    def start(self, spec: ContainerSpec) -> Container:
        """Start the neighbours, then the trial.

        Raises:
            EngineError: the engine refuses, or disk limits are unavailable.
        """
        if self._environment.neighbours:
            self._ends.enter_context(neighbours(self._inner, spec, self._environment.neighbours))
        container = self._inner.start(spec)
        if self._environment.disk_read_bytes_per_s:
            data = next(mount.host for mount in spec.mounts if mount.container.startswith(f"{DATA_DIR}/"))
            try:
                limit_reads(container.pid, data, self._environment.disk_read_bytes_per_s)
            except (OSError, NoCgroupError) as error:
                container.kill()
                container.remove()
                raise EngineError(
                    f"Disk limits are unavailable here: {str(error).rstrip('.')}.",
                    hint="Run as root on the engine's host, or leave out the case.",
                ) from error
        return container

    def remove_stale(self) -> None:
        """Remove containers left behind by an earlier harness."""
        self._inner.remove_stale()

    def answers(self) -> bool:
        """Return whether the inner engine answers."""
        return self._inner.answers()

    def close(self) -> None:
        """Stop the neighbours and close the engine."""
        self._ends.close()
        self._inner.close()


@contextmanager
def neighbours(engine: Engine, spec: ContainerSpec, processes: int) -> Iterator[None]:
    """Run busy processes in a container pinned like the trial `spec`.

    Raises:
        EngineError: the engine refuses to start it; losing it later is ignored.
    """
    with tempfile.TemporaryDirectory(prefix="tfbench-neighbour-", ignore_cleanup_errors=True) as folder:
        command = ("python3", "-c", BUSY.format(others=processes - 1))
        changed = replace(
            spec, command=command, out=Path(folder), mounts=(), gpu=None, cpu_quota=None,
            trial_id=f"{spec.trial_id}-neighbour",
        )  # fmt: skip
        container = engine.start(changed)
        try:
            yield
        finally:
            with suppress(EngineError):
                container.kill()
                container.remove()


def limit_reads(pid: int | None, folder: Path | None, bytes_per_s: int) -> None:
    """Limit a container's reads from the disk that holds `folder`, in cgroup v1 or v2.

    Raises:
        OSError: not permitted, or no such disk.
        NoCgroupError: the container's cgroup is not visible.
    """
    if folder is None:
        raise OSError("the data is in a volume")
    cgroup = locate(Path("/"), pid)
    disk = disk_of(folder)
    if cgroup.version == 1:
        file, text = cgroup.folders["blkio"] / "blkio.throttle.read_bps_device", f"{disk} {bytes_per_s}"
    else:
        file, text = cgroup.folders[UNIFIED] / "io.max", f"{disk} rbps={bytes_per_s}"
    file.write_text(text, encoding="ascii")


def disk_of(folder: Path) -> str:
    """Return "major:minor" of the whole disk that holds a folder; the kernel refuses limits on partitions."""
    number = folder.stat().st_dev
    device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve(strict=True)
    if (device / "partition").exists():
        device = device.parent
    return (device / "dev").read_text(encoding="ascii").strip()
