"""Which engine a run uses: the one that was asked for, or Docker if it answers and else the local one.

"docker" is any engine that speaks Docker's interface, Podman among them where no Docker answers; "podman" is
Podman alone.
"""

from __future__ import annotations

from harness.engines import Engine
from harness.engines.daemon import DOCKER, PODMAN
from harness.engines.docker import DockerEngine
from harness.engines.local import LocalEngine
from harness.errors import EngineError, unknown
from harness.model.platform import EngineInfo
from harness.progress import Progress

LOCAL = "local"
NAMES = ("auto", DOCKER, PODMAN, LOCAL)


def connect(name: str, progress: Progress) -> tuple[Engine, EngineInfo]:
    """Reach an engine by name; "auto" takes Docker when one answers.

    Raises:
        UsageError: there is no such engine.
        EngineError: "docker" or "podman" was asked for and none answers.
    """
    if name not in NAMES:
        raise unknown("engine", name, NAMES)
    if name != LOCAL:
        engine = DockerEngine(podman=name == PODMAN)
        try:
            return engine, engine.connect()
        except EngineError as error:
            if name != "auto":
                raise
            progress.line(f"No container engine answers ({error.message})")
    local = LocalEngine()
    return local, local.connect()


def settled(asked: str, info: EngineInfo) -> str:
    """Return the name by which another run gets the engine that `asked` came to.

    A container engine that was not asked for as Podman stays "docker", which another host may have instead.
    """
    if not info.isolated:
        return LOCAL
    return PODMAN if asked == PODMAN else DOCKER
