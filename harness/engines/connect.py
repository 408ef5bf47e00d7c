"""Which engine a run uses: the one that was asked for, or Docker if it answers and else the local one."""

from __future__ import annotations

import os

from harness.engines import Engine
from harness.engines.docker import DockerEngine
from harness.engines.local import LocalEngine
from harness.errors import EngineError, UsageError
from harness.model.run import EngineInfo
from harness.progress import Progress

NAMES = ("auto", "docker", "local")


def connect(name: str, progress: Progress) -> tuple[Engine, EngineInfo]:
    """Reach an engine by name; "auto" takes Docker when one answers.

    Raises:
        UsageError: there is no such engine.
        EngineError: "docker" was asked for and none answers.
    """
    if name not in NAMES:
        raise UsageError(f"There is no engine {name!r}.", hint=f"Choose from: {', '.join(NAMES)}.")
    if name != "local":
        docker = DockerEngine(os.environ)
        try:
            return docker, docker.connect()
        except EngineError as error:
            if name == "docker":
                raise
            progress.line(f"No container engine answers ({error.message})")
    local = LocalEngine()
    return local, local.connect()
