"""Build images, each once for the same content, and build contexts for docker-compose."""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import docker
from docker.errors import ImageNotFound, NotFound
from docker.types import Mount

from harness.engines.calls import engine_call
from harness.errors import ImageError
from harness.images.bases import obtain, pull_missing
from harness.images.recipes import TARGETS, Base, Recipes, building, last_lines
from harness.model.platform import ImageInfo
from harness.progress import Progress

_TAIL_LINES = 12
# Committing copies gigabytes.
_COMMIT_S = 3600


class ImageBuilder:
    """Build images, or their contexts for docker-compose.

    Args:
        client: the engine; None is enough for `fetch`.
    """

    def __init__(
        self, checkout: Path, cache: Path, client: docker.DockerClient | None, progress: Progress
    ) -> None:
        self._checkout = checkout
        self._recipes = Recipes(checkout / "images")
        self._cache = cache
        self._client = client
        self._progress = progress

    def existing(self, target: str, base: str | None = None) -> ImageInfo | None:
        """Return `target`'s image if the engine has an up-to-date one.

        Args:
            target: one of TARGETS.
            base: the user's own base image; None for the pinned or the bootstrapped one.
        """
        usual = (self._recipes.pinned_base(), self._recipes.bootstrapped_base())
        with engine_call("look for images"):
            for candidate in (self._own_base(base),) if base else usual:
                with suppress(ImageNotFound):
                    return self._info(target, candidate)
        return None

    def ensure(self, target: str, base: str | None = None) -> ImageInfo:
        """Return `target`'s image, built unless it is up to date.

        Raises:
            ImageError: wheels or a base cannot be fetched, or the build fails; the message names the log.
        """
        if image := self.existing(target, base):
            return image
        with building(self._cache, self._progress) as folder:
            # Another process may have built it while this one waited.
            if image := self.existing(target, base):
                return image
            chosen = self._choose_base(base)
            context = self._recipes.lay_out(target, folder, self._cache, self._progress)
            with engine_call(f"build the {target} image"):
                self._build(target, chosen, context)
                return self._info(target, chosen)

    def fetch(self, target: str, base: str | None = None) -> Path:
        """Write `target`'s build context and .env for `docker-compose build`; return the context's folder.

        With an engine its base image is made too; without one the pinned base is named.
        """
        folder = self._checkout / "images" / "context"
        with building(self._cache, self._progress):
            chosen = self._choose_base(base)
            context = self._recipes.lay_out(target, folder / target, self._cache, self._progress)
            # docker-compose 1.29 rejects the file if any service's folder is missing.
            for each in TARGETS:
                (folder / each).mkdir(exist_ok=True)
            (self._checkout / ".env").write_text(self._recipes.compose_variables(chosen), encoding="utf-8")
        return context

    def own(self, target: str, reference: str) -> ImageInfo:
        """Return a user's own image, pulled if necessary; all it needs is Python and TensorFlow."""
        with engine_call(f"get the image {reference}"):
            image = pull_missing(self._engine, reference, self._progress)
        return ImageInfo(
            target=target,
            reference=reference,
            digest=str(image.id),
            base="",
            lock_sha256="",
            contents=image_contents(image.attrs),
            note="image of the user's own; not built from this repository's locks",
        )

    def _build(self, target: str, base: Base, context: Path) -> None:
        """Run image.sh in a container of the base and commit it, which makes the same layer as BuildKit."""
        api, tag = self._engine.api, self._recipes.tag(target, base)
        # Only users with different caches can build at the same time.
        name = f"tfbench-build-{tag.partition(':')[2]}-{os.getuid()}"
        with suppress(NotFound):  # of a build that was killed
            api.remove_container(name, force=True)
        # No network: the build depends on its context alone. With labels, SELinux denies access to bind
        # mounts.
        host = api.create_host_config(
            network_mode="none",
            security_opt=["label=disable"],
            mounts=[Mount(target="/mnt", source=str(context.absolute()), type="bind", read_only=True)],
        )
        command, entrypoint = ["sh", "/mnt/image.sh"], ["/usr/bin/env"]
        api.create_container(
            base.reference, command, entrypoint=entrypoint, user="0", name=name, host_config=host
        )
        log = self._cache / "logs" / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        timeout = api.timeout
        try:
            with log.open("wb") as file, self._progress.task(f"{target} image", None) as spinner:
                api.start(name)
                for chunk in api.attach(name, stream=True, logs=True):
                    file.write(chunk)
                    spinner.note(chunk.decode(errors="replace").strip().rpartition("\n")[2][:60])
                if api.wait(name)["StatusCode"] != 0:
                    file.flush()
                    raise _build_error(target, log)
                spinner.note("committing")
                api.timeout = _COMMIT_S
                repository, _, version = tag.partition(":")
                api.commit(name, repository=repository, tag=version, changes=self._recipes.settings())
        finally:
            api.timeout = timeout
            api.remove_container(name, force=True)

    def _choose_base(self, base: str | None) -> Base:
        pinned = self._recipes.pinned_base()
        if self._client is None:
            return Base(reference=base, identity=base) if base else pinned
        with engine_call("get a base image"):
            if base:
                return self._own_base(base)
            script = self._checkout / "images" / "base.sh"
            return obtain(self._client, pinned, self._recipes.bootstrapped_base(), script, self._progress)

    def _own_base(self, reference: str) -> Base:
        """Return the user's own base, pulled if necessary, identified by its content id too."""
        image = pull_missing(self._engine, reference, self._progress)
        return Base(
            reference=reference, identity=f"{reference}@{image.id}", note="base image of the user's own"
        )

    @property
    def _engine(self) -> docker.DockerClient:
        assert self._client is not None, "only fetch works without an engine"
        return self._client

    def _info(self, target: str, base: Base) -> ImageInfo:
        reference = self._recipes.tag(target, base)
        image = self._engine.images.get(reference)
        return ImageInfo(
            target=target,
            reference=reference,
            digest=str(image.id),
            base=base.reference,
            lock_sha256=self._recipes.lock_sha256(target),
            contents=image_contents(image.attrs),
            note=base.note,
        )


def image_contents(attributes: dict[str, Any]) -> str:
    """Return a hash of an image's layers and settings, from its inspected attributes.

    Unlike the engine's content id it does not depend on the time of the build.
    """
    settings = attributes.get("Config") or {}
    kept = {name: settings.get(name) or None for name in ("Cmd", "Entrypoint", "Env", "User", "WorkingDir")}
    parts = {"layers": attributes["RootFS"].get("Layers"), "settings": kept}
    return f"sha256:{hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()}"


def _build_error(target: str, log: Path) -> ImageError:
    tail = last_lines(log.read_text(encoding="utf-8", errors="replace"), _TAIL_LINES)
    return ImageError(
        f"The {target} image could not be built:\n{tail}\n",
        hint=f"The whole log is in {log}; a base of your own needs Python 3.13 with venv, and the CUDA image 12 GB "
        "of the engine's disk (`docker system df`).",
    )
