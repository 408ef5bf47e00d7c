import json
import os
import re
import shutil
import socket
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import docker
import pytest
from docker.errors import APIError, NotFound

from harness.errors import ImageError
from harness.images.builder import ImageBuilder, image_contents, obtain, pull_missing
from harness.model.platform import ImageInfo
from harness.progress import Silent
from tests.fakes import RecordingProgress
from tests.wheelhouse import make_checkout, make_wheel, sha256

pytestmark = pytest.mark.docker

# Nothing listens on this port, so that pulls fail at once.
DEAD_REGISTRY = "127.0.0.1:9/none:1"


@pytest.fixture
def client() -> Iterator[docker.DockerClient]:
    client = docker.from_env()
    yield client
    client.close()


@pytest.fixture
def module() -> str:
    """Return a unique package name, which makes the lock and the image name unique too."""
    return f"m{uuid.uuid4().hex[:12]}"


@pytest.fixture
def checkout(tmp_path: Path, module: str, base_image: ImageInfo) -> Path:
    """Return a checkout whose images are built on the tests' base image."""
    folder = make_checkout(tmp_path / "checkout", [make_wheel(tmp_path / "cache/wheels", module)])
    dockerfile = folder / "images/Dockerfile"
    dockerfile.write_text(re.sub("ARG BASE=.*", f"ARG BASE={base_image.reference}", dockerfile.read_text()))
    return folder


@pytest.fixture
def builder(tmp_path: Path, checkout: Path, client: docker.DockerClient) -> Iterator[ImageBuilder]:
    builder = ImageBuilder(checkout, tmp_path / "cache", client, RecordingProgress())
    yield builder
    if result := builder.existing("cpu"):
        client.images.remove(result.reference)


def test_image_is_built_once_and_rebuilds_by_us_and_by_compose_are_identical(
    tmp_path, builder, checkout, client, base_image, module
):
    assert builder.existing("cpu") is None
    info = builder.custom("cpu", base_image.reference)
    assert (info.reference, info.digest, info.lock_sha256) == (base_image.reference, base_image.digest, "")
    with pytest.raises(ImageError, match="Could not pull"):
        builder.custom("cpu", DEAD_REGISTRY)
    info = builder.ensure("cpu")
    assert info.base == base_image.reference
    assert info.digest == client.images.get(info.reference).id
    code = f"import {module}, os; print({module}.VERSION, os.getuid())"
    printed = client.containers.run(info.reference, ["python3", "-c", code], read_only=True, remove=True)
    assert printed == b"1.0 10001\n"

    document = json.loads(builder.sbom(info))
    parts = {each["purl"]: each for each in document["components"] if "purl" in each}
    (wheel,) = (tmp_path / "cache/wheels").glob(f"{module}-*.whl")
    assert parts[f"pkg:pypi/{module}@1.0"]["hashes"][0]["content"] == sha256(wheel)
    assert any(purl.startswith("pkg:deb/debian/python3@3.13") for purl in parts)
    assert builder.sbom(info) == (tmp_path / "cache/sboms" / f"{info.digest[7:]}.cdx.json").read_bytes()
    shutil.rmtree(tmp_path / "cache/sboms")

    progress = RecordingProgress()
    second_builder = ImageBuilder(tmp_path / "checkout", tmp_path / "cache", client, progress)
    assert second_builder.ensure("cpu") == info
    assert progress.tasks == []
    # The build context has been removed.
    assert {path.name for path in (tmp_path / "cache").iterdir()} == {"images.lock", "logs", "wheels"}

    client.images.remove(info.reference)
    leftover = f"{info.reference.replace('tfbench:', 'tfbench-build-')}-{os.getuid()}"
    client.containers.create(info.base, "true", name=leftover)
    second = second_builder.ensure("cpu")
    assert second.digest != info.digest
    assert second.contents == info.contents
    with pytest.raises(NotFound):
        client.containers.get(leftover)

    builder.fetch("cpu")
    # The docker client installed with the engine; another one on PATH may lack BuildKit.
    path = f"/usr/bin{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        ["docker-compose", "build", "cpu"],
        cwd=checkout, check=True, capture_output=True, env={**os.environ, "PATH": path, "DOCKER_BUILDKIT": "1"},
    )  # fmt: skip
    by_compose = client.images.get(info.reference)
    assert by_compose.id != second.digest
    assert image_contents(by_compose.attrs) == info.contents
    # Our image has lost its name to the one by compose.
    with suppress(APIError):
        client.images.remove(second.digest)


def test_failed_build_leaves_only_its_log(builder, checkout):
    with (checkout / "images/install.sh").open("a") as script:
        script.write("echo broken on purpose; exit 1\n")
    with pytest.raises(ImageError, match="Could not build the cpu image") as raised:
        builder.ensure("cpu")
    log = re.search(r"\S+\.log", raised.value.hint)
    assert "broken on purpose" in Path(log[0]).read_text()
    assert "broken on purpose" in raised.value.message
    assert builder.existing("cpu") is None
    assert {path.name for path in checkout.iterdir()} == {"docker-compose.yml", "images"}


def test_base_is_bootstrapped_without_a_registry(tmp_path, client):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        reference = f"127.0.0.1:{silent.getsockname()[1]}/none:1"
        with pytest.raises(ImageError, match="no response for 1 s"):
            pull_missing(client, reference, Silent(), response_s=1)
    bootstrapped = f"tfbench-test-base:{uuid.uuid4().hex}"
    script, progress = tmp_path / "base.sh", RecordingProgress()
    script.touch(mode=0o755)
    script.write_text("#!/bin/sh\necho no apt here >&2; exit 1")
    with pytest.raises(ImageError, match="no apt here") as raised:
        obtain(client, DEAD_REGISTRY, bootstrapped, script, Silent())
    assert "ARG BASE" in raised.value.hint
    script.write_text('#!/bin/sh\ntar --create --file "$1" /etc/hostname')
    try:
        for _ in range(2):  # the second time it exists already
            assert obtain(client, DEAD_REGISTRY, bootstrapped, script, progress) == bootstrapped
        (line,) = progress.lines
        assert "distribution packages" in line
    finally:
        client.images.remove(bootstrapped)
