"""Fixtures for container tests: a small base image, an engine, and trial specifications."""

import fcntl
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from docker.errors import ImageNotFound

from harness.engines import Container, ContainerSpec, Exit
from harness.engines.docker import DockerEngine
from harness.model.platform import ImageInfo
from harness.system.doctor_checks import run_to_end
from tests.builders import container_spec, image

BASE = "tfbench-base:test"
BASE_SCRIPT = Path(__file__).parents[2] / "images/base.sh"

MakeSpec = Callable[..., ContainerSpec]


@pytest.fixture(scope="session")
def base_image() -> ImageInfo:
    """A base image with only Python, built from distribution packages if missing."""
    # One of pytest-xdist's workers builds it; the others wait.
    with (
        closing(DockerEngine.connect()) as engine,
        (Path(tempfile.gettempdir()) / "tfbench-test-base.lock").open("w") as lock,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            result = engine.client.images.get(BASE)
        except ImageNotFound:
            subprocess.run([BASE_SCRIPT, BASE], check=True)
            result = engine.client.images.get(BASE)
    return replace(image(BASE), digest=str(result.id))


@pytest.fixture
def engine(base_image: ImageInfo) -> Iterator[DockerEngine]:
    with closing(DockerEngine.connect()) as engine:
        yield engine


@pytest.fixture
def make_spec(base_image: ImageInfo, tmp_path: Path) -> MakeSpec:
    plain = {"image": base_image, "out": tmp_path / "out"}
    plain["out"].mkdir()
    return lambda *command, **changes: container_spec(**{**plain, "command": command, **changes})


@pytest.fixture
def run_it(engine: DockerEngine) -> Callable[[ContainerSpec], tuple[Exit, str]]:
    return lambda spec: run_to_end(engine, spec, 60)


def wait_for(container: Container) -> Exit:
    while (exit_ := container.poll()) is None:
        time.sleep(0.02)
    return exit_
