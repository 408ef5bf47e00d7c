"""Choose the engine of a run: by default Docker if it answers, else the local engine.

"docker" is any engine with Docker's API; Podman is used if no Docker answers.
"""

from __future__ import annotations

from harness.engines import Engine
from harness.engines.docker import DockerEngine
from harness.engines.local import WARNING, LocalEngine
from harness.errors import EngineError, unknown
from harness.progress import Progress

DOCKER, LOCAL = "docker", "local"
NAMES = ("auto", DOCKER, LOCAL)


def connect(name: str, progress: Progress) -> Engine:
    """Connect to an engine by name and report which one; "auto" uses Docker if it answers.

    Raises:
        UsageError: unknown engine.
        EngineError: "docker" was requested and none answers.
    """
    if name not in NAMES:
        raise unknown("engine", name, NAMES)
    if name != LOCAL:
        try:
            engine = DockerEngine.connect()
        except EngineError as error:
            if name != "auto":
                raise
            progress.line(error.message)
        else:
            progress.line(f"Engine: {engine.info.name} {engine.info.version}")
            return engine
    progress.line(WARNING)
    return LocalEngine()
