"""Name images by their content and lay out what they are built from."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from harness.errors import ImageError
from harness.images.compose import Declaration, read_declaration, read_targets, update_env, variable
from harness.images.locks import file_sha256
from harness.images.wheels import cached_wheels, fetch_wheels, link_or_copy
from harness.progress import Progress

# The base image's Python; the locks hold wheels for it.
PYTHON_VERSION = "3.13"


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A base image: what the Dockerfile's FROM is given, and what tells its content from another's."""

    reference: str
    identity: str
    note: str = ""


class BuildContexts:
    """The folders under images/context/, one a target.

    Args:
        checkout: the folder that holds docker-compose.yml and images/.
        cache: root of the cache.
        progress: where bars go.
    """

    def __init__(self, checkout: Path, cache: Path, progress: Progress) -> None:
        self._checkout = checkout
        self._compose = checkout / "docker-compose.yml"
        self._images = checkout / "images"
        self._cache = cache
        self._progress = progress

    def targets(self) -> tuple[str, ...]:
        """Return every target that docker-compose.yml declares."""
        return read_targets(self._compose)

    def lock(self, target: str) -> Path:
        """Return the path of a target's lock."""
        return self._images / f"{target}.lock"

    def default_base(self) -> Base:
        """Return the base that the Dockerfile pins."""
        found = re.search(r"^ARG BASE=(\S+)$", self._dockerfile().decode(), re.MULTILINE)
        if found is None:
            raise ImageError(
                "images/Dockerfile has no line ARG BASE=...", hint="Restore it from the repository."
            )
        return Base(reference=found[1], identity=found[1])

    def bootstrapped_base(self) -> Base:
        """Return the base that images/base.sh makes, named by the script that makes it."""
        reference = f"tfbench-base:{file_sha256(self._images / 'base.sh')[:12]}"
        return Base(
            reference=reference,
            identity=reference,
            note="base image bootstrapped from distribution packages: no image registry answered",
        )

    def tag(self, target: str, base: Base) -> str:
        """Return the image name that stands for everything that goes into `target`."""
        parts = {
            "target": target,
            "base": base.identity,
            "dockerfile": hashlib.sha256(self._dockerfile()).hexdigest(),
            "lock": self.lock_sha256(target),
        }
        digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
        return f"tfbench:{target}-{digest[:12]}"

    def lock_sha256(self, target: str) -> str:
        """Return the hash of a target's lock.

        Raises:
            ImageError: there is none.
        """
        try:
            return file_sha256(self.lock(target))
        except OSError as error:
            raise ImageError(
                f"The target {target!r} has no lock {self.lock(target)}.",
                hint=f"Targets are: {', '.join(self.targets())}.",
            ) from error

    def declaration(self, target: str, base: Base) -> Declaration:
        """Return what docker-compose.yml says about `target` on `base`."""
        return read_declaration(self._compose, target, self.variables(base))

    def variables(self, base: Base) -> dict[str, str]:
        """Return compose's variables for all targets: one that is not set spoils the file for the others."""
        values: dict[str, str] = {}
        for target in self.targets():
            values[variable(target, "IMAGE")] = self.tag(target, base)
            values[variable(target, "BASE")] = base.reference
        return values

    def lay_out(self, target: str, base: Base) -> Declaration:
        """Fetch what is missing of `target`'s wheels, make its build context and name it in .env.

        Raises:
            ImageError: wheels cannot be fetched, or the folder cannot be written.
        """
        declaration = self.declaration(target, base)
        lock = self.lock(target)
        fetch_wheels(lock, self._cache, PYTHON_VERSION, self._progress)
        wheels = cached_wheels(lock, self._cache, PYTHON_VERSION).values()
        try:
            folder = declaration.context / "wheels"
            folder.mkdir(parents=True, exist_ok=True)
            # docker-compose 1.29 refuses the whole file while one service's folder is missing.
            for other in self.targets():
                self.declaration(other, base).context.mkdir(parents=True, exist_ok=True)
            # Copies, not links: a context must not change when somebody edits the originals.
            shutil.copyfile(self._images / "Dockerfile", declaration.context / declaration.dockerfile)
            shutil.copyfile(lock, declaration.context / "requirements.lock")
            for stale in {path.name for path in folder.iterdir()} - {wheel.name for wheel in wheels}:
                (folder / stale).unlink()
            for wheel in wheels:
                _place(wheel, folder / wheel.name)
            update_env(self._checkout / ".env", self.variables(base))
        except OSError as error:
            raise ImageError(
                f"The build context {declaration.context} cannot be written: {error.strerror}.",
                hint="Free some space, or make the checkout writable.",
            ) from error
        return declaration

    def _dockerfile(self) -> bytes:
        path = self._images / "Dockerfile"
        try:
            return path.read_bytes()
        except OSError as error:
            raise ImageError(
                f"{path} cannot be read: {error.strerror}.",
                hint="Run tfbench in a checkout of its repository, which holds the image recipes.",
            ) from error


def _place(wheel: Path, target: Path) -> None:
    if not (target.exists() and target.samefile(wheel)):
        link_or_copy(wheel, target)
