"""Which engine a run uses: the one that was asked for, or Docker if it answers and else the local one.

"docker" is any engine that speaks Docker's interface, Podman among them where no Docker answers.
"""

from __future__ import annotations

from harness.engines import Engine
from harness.engines.docker import DockerEngine
from harness.engines.local import LocalEngine
from harness.errors import EngineError, unknown
from harness.model.platform import EngineInfo
from harness.progress import Progress

DOCKER, LOCAL = "docker", "local"
NAMES = ("auto", DOCKER, LOCAL)


def connect(name: str, progress: Progress) -> tuple[Engine, EngineInfo]:
    """Reach an engine by name, and say which; "auto" takes Docker when one answers.

    Raises:
        UsageError: there is no such engine.
        EngineError: "docker" was asked for and none answers.
    """
    if name not in NAMES:
        raise unknown("engine", name, NAMES)
    if name != LOCAL:
        engine = DockerEngine()
        try:
            info = engine.connect()
            progress.line(f"Engine: {info.name} {info.version}")
            return engine, info
        except EngineError as error:
            if name != "auto":
                raise
            progress.line(error.message)
    progress.line(
        "Engine: local. NOTHING IS ISOLATED: no container engine is used, so the workloads run as plain processes "
        "beside everything else here. For containers: make engine"
    )
    local = LocalEngine()
    return local, local.connect()
