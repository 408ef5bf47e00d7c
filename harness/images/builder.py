"""Build the images that docker-compose.yml declares, each at most once for the same content.

No network is used while an image is built: contexts.py has put everything into its build context.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import docker
import requests
from docker.errors import APIError, DockerException, ImageNotFound

from harness.errors import EngineError, ImageError
from harness.images.bases import BaseImages, pull_missing
from harness.images.build import Build
from harness.images.contexts import Base, BuildContexts
from harness.model.run import ImageInfo
from harness.progress import Progress, Silent
from harness.system.file_locks import filling


class ImageBuilder:
    """Give images by target, and build contexts for people who build them with compose.

    Args:
        checkout: the folder that holds docker-compose.yml and images/.
        cache: root of the cache.
        client: the engine; None where none answers, which is enough for `fetch`.
        progress: where bars and remarks go.
    """

    def __init__(
        self, checkout: Path, cache: Path, client: docker.DockerClient | None, progress: Progress
    ) -> None:
        self._contexts = BuildContexts(checkout, cache, progress)
        self._script = checkout / "images" / "base.sh"
        self._cache = cache
        self._client = client
        self._progress = progress

    def targets(self) -> tuple[str, ...]:
        """Return every target that docker-compose.yml declares."""
        return self._contexts.targets()

    def existing(self, target: str, base: str | None = None) -> ImageInfo | None:
        """Return `target`'s image if the engine holds it for the present content, in milliseconds.

        Args:
            target: a service of docker-compose.yml.
            base: the user's own base image; None for the pinned or the bootstrapped one.

        Raises:
            EngineError: no engine answers.
        """
        client = self._engine()
        with _engine_errors():
            for candidate in self._candidates(client, base):
                try:
                    image = client.images.get(self._contexts.tag(target, candidate))
                except ImageNotFound:
                    continue
                return self._info(target, candidate, str(image.id))
        return None

    def ensure(self, target: str, base: str | None = None) -> ImageInfo:
        """Return `target`'s image, built if the engine does not hold it for the present content.

        Raises:
            EngineError: no engine answers.
            ImageError: wheels or a base cannot be had, or the build fails; the message has the log's path.
        """
        if found := self.existing(target, base):
            return found
        client = self._engine()
        with self._turn():
            # Whoever held the lock may have built it.
            if found := self.existing(target, base):
                return found
            with _engine_errors():
                _check_architecture(client)
                chosen = self._choose_base(base)
                declaration = self._contexts.lay_out(target, chosen)
                log = self._cache / "logs" / f"build-{declaration.image.replace(':', '-')}.log"
                image_id = Build(client, declaration, log, self._progress).run()
        return self._info(target, chosen, image_id)

    def fetch(self, target: str, base: str | None = None) -> Path:
        """Lay out `target`'s build context and .env for `docker-compose build`; return the context's folder.

        With an engine at hand its base image is seen to as well; without one the pinned base is named.

        Raises:
            ImageError: wheels or a base cannot be had.
        """
        with self._turn(), _engine_errors():
            return self._contexts.lay_out(target, self._choose_base(base)).context

    def _choose_base(self, base: str | None) -> Base:
        pinned = self._contexts.default_base()
        if self._client is None:
            return pinned if base is None else Base(reference=base, identity=base)
        bases = self._bases(self._client)
        if base is not None:
            return bases.named(base)
        return bases.obtain(pinned, self._contexts.bootstrapped_base())

    def _candidates(self, client: docker.DockerClient, base: str | None) -> tuple[Base, ...]:
        if base is not None:
            return (self._bases(client).named(base),)
        return (self._contexts.default_base(), self._contexts.bootstrapped_base())

    def _bases(self, client: docker.DockerClient) -> BaseImages:
        return BaseImages(client, self._script, self._progress)

    def _engine(self) -> docker.DockerClient:
        if self._client is None:
            raise EngineError(
                "Images cannot be built: no container engine answers.",
                hint="Start one (`make engine`), or only fetch the wheels with --fetch-only.",
            )
        return self._client

    def _info(self, target: str, base: Base, image_id: str) -> ImageInfo:
        return ImageInfo(
            target=target,
            reference=self._contexts.tag(target, base),
            digest=image_id,
            base=base.reference,
            lock_sha256=self._contexts.lock_sha256(target),
            note=base.note,
        )

    @contextmanager
    def _turn(self) -> Iterator[None]:
        try:
            with filling(self._cache / "images.lock", self._progress):
                yield
        except OSError as error:
            full = error.errno == errno.ENOSPC
            raise ImageError(
                f"The cache {self._cache} cannot be written: {error.strerror}.",
                hint="Free some space." if full else "Set TFBENCH_CACHE to a folder of yours.",
            ) from error


def user_image(
    client: docker.DockerClient, target: str, reference: str, progress: Progress | None = None
) -> ImageInfo:
    """Return an image of the user's own for `target`, pulled if it is not here.

    It needs nothing but Python and TensorFlow.

    Raises:
        ImageError: it is neither here nor can it be pulled.
        EngineError: no engine answers.
    """
    with _engine_errors():
        return ImageInfo(
            target=target,
            reference=reference,
            digest=pull_missing(client, reference, progress or Silent()),
            base="",
            lock_sha256="",
            note="image of the user's own; not built from this repository's locks",
        )


def _check_architecture(client: docker.DockerClient) -> None:
    architecture = client.version().get("Arch", "amd64")
    if architecture not in {"amd64", "x86_64"}:
        raise ImageError(
            f"The engine runs on {architecture}; the images' wheels are for x86_64 only.",
            hint="Use an x86_64 host, or an image of your own: --image cpu=REF.",
        )


@contextmanager
def _engine_errors() -> Iterator[None]:
    """Turn what the docker package raises into errors of ours."""
    began = time.monotonic()
    try:
        yield
    except APIError as error:
        raise ImageError(
            f"The engine refused: {error.explanation or error}.",
            hint="See `docker info` and the engine's own log.",
        ) from error
    except (DockerException, requests.RequestException) as error:
        raise EngineError(
            f"The engine stopped answering after {time.monotonic() - began:.0f} s: {error}.",
            hint="Check it with `docker info`; `make engine` starts one.",
        ) from error
