"""Images from tiny locks, built by the real engine through the path that the real ones take."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import tarfile
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import docker
import pytest
from docker.errors import APIError, ImageNotFound

from harness.errors import ImageError
from harness.images.bases import BaseImages, pull_missing
from harness.images.builder import ImageBuilder, user_image
from harness.images.contexts import Base
from harness.model.run import ImageInfo
from harness.progress import Silent
from tests.fakes import RecordingProgress
from tests.wheelhouse import make_checkout, make_wheel

pytestmark = pytest.mark.docker

# Nothing listens there: the engine is told so at once.
DEAD_REGISTRY = "127.0.0.1:9"


@pytest.fixture
def client() -> Iterator[docker.DockerClient]:
    client = docker.from_env()
    yield client
    client.close()


@pytest.fixture
def module() -> str:
    """Return a package name that no other test has, and with it a lock and an image name of its own."""
    return f"m{uuid.uuid4().hex[:12]}"


@pytest.fixture
def checkout(tmp_path: Path, module: str) -> Path:
    return make_checkout(tmp_path / "checkout", [make_wheel(tmp_path / "cache/wheels", module)])


@pytest.fixture
def builder(
    tmp_path: Path, checkout: Path, client: docker.DockerClient, base_image: ImageInfo
) -> Iterator[ImageBuilder]:
    builder = ImageBuilder(checkout, tmp_path / "cache", client, RecordingProgress())
    yield builder
    if found := builder.existing("cpu", base_image.reference):
        client.images.remove(found.reference)


def run(client: docker.DockerClient, reference: str, code: str) -> str:
    output = client.containers.run(
        reference, ["python3", "-c", code], network_mode="none", read_only=True, remove=True
    )
    return str(output.decode().strip())


def test_an_image_is_built_once_from_its_lock(
    tmp_path: Path, builder: ImageBuilder, client: docker.DockerClient, base_image: ImageInfo, module: str
) -> None:
    base = base_image.reference
    assert builder.existing("cpu", base) is None
    info = builder.ensure("cpu", base)
    assert info.digest == client.images.get(info.reference).id
    assert (
        run(client, info.reference, f"import {module}, os; print({module}.VERSION, os.getuid())")
        == "1.0 10001"
    )

    progress = RecordingProgress()
    again = ImageBuilder(tmp_path / "checkout", tmp_path / "cache", client, progress)
    assert again.ensure("cpu", base) == info
    assert progress.tasks == []

    # What only the build needed is gone: of the layers it made, none is left without a name or descendants.
    (log,) = (tmp_path / "cache/logs").glob("build-*.log")
    layers = re.findall(r"^ ---> ([0-9a-f]{12})$", log.read_text(), re.MULTILINE)
    assert layers
    dangling = {
        str(image.id).removeprefix("sha256:")[:12] for image in client.images.list(filters={"dangling": True})
    }
    assert dangling.isdisjoint(layers)


def test_compose_builds_the_same_under_the_same_name(
    builder: ImageBuilder, checkout: Path, client: docker.DockerClient, base_image: ImageInfo, module: str
) -> None:
    compose = shutil.which("docker-compose")
    if compose is None:
        pytest.skip("docker-compose is not installed")
    info = builder.ensure("cpu", base_image.reference)
    ours = client.images.get(info.reference)
    said = subprocess.run([compose, "build", "cpu"], cwd=checkout, check=True, capture_output=True, text=True)
    theirs = client.images.get(info.reference)
    for key in ("Env", "Cmd", "Entrypoint", "User", "WorkingDir", "Labels", "Volumes"):
        assert theirs.attrs["Config"][key] == ours.attrs["Config"][key], key
    assert run(client, info.reference, f"import {module}; print({module}.VERSION)") == "1.0"
    # Unlike ours, compose leaves the layers of the first stage behind, and takes our image's name away.
    for layer in (str(ours.id), *reversed(re.findall(r"^ ---> ([0-9a-f]{12})$", said.stdout, re.MULTILINE))):
        with suppress(APIError):
            if not client.images.get(layer).tags:
                client.images.remove(layer)


def test_a_build_that_fails_says_why_and_where_the_log_is(
    builder: ImageBuilder, client: docker.DockerClient, base_image: ImageInfo
) -> None:
    # The tiny lock has no CUDA libraries, which the CUDA stage checks for.
    with pytest.raises(ImageError, match="cuda image could not be built") as caught:
        builder.ensure("cuda", base_image.reference)
    log = re.search(r"\S+\.log", caught.value.hint)
    assert log is not None
    assert "ls -d" in Path(log[0]).read_text()
    assert "nvidia" in caught.value.message
    assert builder.existing("cuda", base_image.reference) is None


def test_a_build_that_fails_leaves_the_users_own_base_without_a_name(
    builder: ImageBuilder, client: docker.DockerClient, base_image: ImageInfo
) -> None:
    container = client.containers.create(base_image.reference, "true")
    base = container.commit(changes=f"LABEL test={uuid.uuid4().hex}")
    container.remove()
    assert not base.tags
    with pytest.raises(ImageError, match="cuda image could not be built"):
        builder.ensure("cuda", str(base.id))
    client.images.remove(str(client.images.get(str(base.id)).id))


class TestBases:
    def test_the_users_own_that_cannot_be_had(self, builder: ImageBuilder) -> None:
        with pytest.raises(ImageError, match="could not be pulled"):
            builder.ensure("cpu", f"{DEAD_REGISTRY}/none:1")

    def test_a_registry_that_stays_silent_is_not_waited_for(self, client: docker.DockerClient) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            reference = f"127.0.0.1:{silent.getsockname()[1]}/none:1"
            with pytest.raises(ImageError, match="no answer for 1 s"):
                pull_missing(client, reference, Silent(), answer_s=1.0)

    def test_without_a_registry_the_script_makes_one_and_a_line_says_so(
        self, tmp_path: Path, client: docker.DockerClient
    ) -> None:
        (tmp_path / "etc").mkdir()
        with tarfile.open(tmp_path / "root.tar", "w") as tar:
            tar.add(tmp_path / "etc", "etc")
        script = tmp_path / "base.sh"
        script.write_text(f'#!/bin/sh\necho working\ncp {tmp_path}/root.tar "$1"\n')
        script.chmod(0o755)
        pinned = Base(reference=f"{DEAD_REGISTRY}/none:1", identity="")
        made = Base(reference=f"tfbench-test-base:{uuid.uuid4().hex}", identity="")
        progress = RecordingProgress()
        bases = BaseImages(client, script, progress)
        try:
            assert bases.obtain(pinned, made) == made
            assert bases.exists(made.reference)
            assert "distribution packages" in progress.lines[0]
            # The second time nobody is asked.
            assert bases.obtain(pinned, made) == made
            assert len(progress.lines) == 1
        finally:
            client.images.remove(made.reference)

    def test_neither_registry_nor_script(self, tmp_path: Path, client: docker.DockerClient) -> None:
        script = tmp_path / "base.sh"
        script.write_text("#!/bin/sh\necho images/base.sh: no apt here >&2\nexit 1\n")
        script.chmod(0o755)
        pinned = Base(reference=f"{DEAD_REGISTRY}/none:1", identity="")
        made = Base(reference=f"tfbench-test-base:{uuid.uuid4().hex}", identity="")
        with pytest.raises(ImageError, match="no apt here") as caught:
            BaseImages(client, script, Silent()).obtain(pinned, made)
        assert "--base" in caught.value.hint
        with pytest.raises(ImageNotFound):
            client.images.get(made.reference)


def test_an_image_of_the_users_own(client: docker.DockerClient, base_image: ImageInfo) -> None:
    info = user_image(client, "cpu", base_image.reference, Silent())
    assert (info.reference, info.digest, info.lock_sha256) == (base_image.reference, base_image.digest, "")
    with pytest.raises(ImageError, match="could not be pulled"):
        user_image(client, "cpu", f"{DEAD_REGISTRY}/none:1", Silent())
