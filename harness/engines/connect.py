"""Which engine a run uses: by default Docker if it answers, else the local one.

"docker" is any engine that speaks Docker's interface, Podman among them where no Docker answers.
"""

from __future__ import annotations

from harness.engines import Engine
from harness.engines.docker import DockerEngine
from harness.engines.local import LocalEngine
from harness.errors import EngineError, unknown
from harness.progress import Progress

DOCKER, LOCAL = "docker", "local"
NAMES = ("auto", DOCKER, LOCAL)


def connect(name: str, progress: Progress) -> Engine:
    """Reach an engine by name; "auto" takes Docker when one answers.

    Raises:
        UsageError: there is no such engine.
        EngineError: "docker" was asked for and none answers.
    """
    if name not in NAMES:
        raise unknown("engine", name, NAMES)
    if name != LOCAL:
        try:
            return DockerEngine.connect()
        except EngineError as error:
            if name != "auto":
                raise
            progress.line(f"No container engine answers ({error.message})")
    return LocalEngine()
