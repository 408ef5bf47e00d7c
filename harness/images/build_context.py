"""What goes into an image: its base, its lock, its name, and the folder that it is built from."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.digests import file_sha256
from harness.errors import ImageError
from harness.images.locks import Pin, read_lock
from harness.model.run import target_for
from workloads.protocol import IMAGES

TARGETS = tuple(target_for(image, gpu=gpu) for image in IMAGES for gpu in (False, True))
# The base image's Python; the locks hold wheels for it.
PYTHON_VERSION = "3.13"

_FILES = ("Dockerfile", "image.sh", "install.sh", "installer.lock")


@dataclass(frozen=True, slots=True, kw_only=True)
class Base:
    """A base image: what the Dockerfile's FROM is given, and what tells its content from another's."""

    reference: str
    identity: str
    note: str = ""


class Recipes:
    """The files in `folder`, images/ of a checkout, from which every target's image is made."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def pinned_base(self) -> Base:
        """Return the base that the Dockerfile pins."""
        pinned = re.search(r"^ARG BASE=(\S+)$", self._read("Dockerfile").decode(), re.MULTILINE)
        if pinned is None:
            raise ImageError(
                "images/Dockerfile has no line ARG BASE=...", hint="Restore it from the repository."
            )
        return Base(reference=pinned[1], identity=pinned[1])

    def bootstrapped_base(self) -> Base:
        """Return the base that images/base.sh makes, named by the script and the packages that it pins."""
        content = self._read("base.sh") + self._read("base.lock")
        reference = f"tfbench-base:{hashlib.sha256(content).hexdigest()[:12]}"
        return Base(
            reference=reference,
            identity=reference,
            note="base image bootstrapped from distribution packages: no image registry answered",
        )

    def pins(self, target: str) -> tuple[Pin, ...]:
        """Return what `target` installs, and the installer.

        Raises:
            ImageError: there is no such lock, or it is damaged.
        """
        return (*read_lock(self._lock(target)), *read_lock(self._folder / "installer.lock"))

    def lock_sha256(self, target: str) -> str:
        """Return the hash of `target`'s lock.

        Raises:
            ImageError: there is no such target.
        """
        try:
            return file_sha256(self._lock(target))
        except OSError as error:
            raise ImageError(
                f"The target {target!r} has no lock {self._lock(target)}.",
                hint=f"Targets are: {', '.join(TARGETS)}.",
            ) from error

    def tag(self, target: str, base: Base) -> str:
        """Return the image name that stands for everything that goes into `target` on `base`."""
        parts = {"target": target, "base": base.identity, "lock": self.lock_sha256(target)}
        parts |= {name: hashlib.sha256(self._read(name)).hexdigest() for name in _FILES}
        digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
        return f"tfbench:{target}-{digest[:12]}"

    def lay_out(self, target: str, folder: Path, wheels: Iterable[Path]) -> None:
        """Fill `folder` with all that `target` is built from, and remove what else lies there."""
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "wheels").mkdir(parents=True)
        for name in ("Dockerfile", "image.sh", "install.sh"):
            shutil.copyfile(self._folder / name, folder / name)
        shutil.copyfile(self._lock(target), folder / "requirements.lock")
        for wheel in wheels:
            link_or_copy(wheel, folder / "wheels" / wheel.name)

    def _lock(self, target: str) -> Path:
        return self._folder / f"{target}.lock"

    def _read(self, name: str) -> bytes:
        path = self._folder / name
        try:
            return path.read_bytes()
        except OSError as error:
            raise ImageError(
                f"{path} cannot be read: {error.strerror}.",
                hint="Run tfbench in a checkout of its repository, which holds the image recipes.",
            ) from error


def compose_variables(recipes: Recipes, base: Base) -> dict[str, str]:
    """Return what docker-compose.yml asks for, for all targets: one unset variable spoils the whole file."""
    values: dict[str, str] = {}
    for target in TARGETS:
        prefix = f"TFBENCH_{target.upper().replace('-', '_')}"
        values |= {f"{prefix}_IMAGE": recipes.tag(target, base), f"{prefix}_BASE": base.reference}
    return values


def update_env(env: Path, values: Mapping[str, str]) -> None:
    """Set `values` in a compose `.env` file; what else it holds stays as it is.

    Raises:
        OSError: the file cannot be written.
    """
    before = env.read_text(encoding="utf-8") if env.exists() else ""
    kept = [line for line in before.splitlines() if line.split("=", 1)[0].strip() not in values]
    after = "".join(f"{line}\n" for line in [*kept, *(f"{k}={v}" for k, v in values.items())])
    if after != before:
        temporary = env.with_name(env.name + ".partial")
        temporary.write_text(after, encoding="utf-8")
        temporary.replace(env)


def link_or_copy(source: Path, target: Path) -> None:
    """Give `source`'s content the name `target` too: by a hard link, or a copy where that cannot be."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
