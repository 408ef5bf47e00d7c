"""Image recipes: base, lock, name and build context."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from harness.errors import ImageError
from harness.images.extra import check_packages, extra_lock, missing_from
from harness.images.wheels import MACHINE, Pin, fetch_wheels, read_lock
from harness.model.platform import target_for
from harness.progress import Progress
from harness.system.shared_files import filling
from workloads.protocol import IMAGES

TARGETS = tuple(target_for(image, gpu=gpu) for image in IMAGES for gpu in (False, True))
# The base image's Python, for which the locks pin wheels.
PYTHON_VERSION = "3.13"
# TensorFlow's CPU wheels have another name there.
ARM = "aarch64"

_FILES = ("Dockerfile", "image.sh", "install.sh")


class Recipes:
    """The image recipes in `folder`, a checkout's images/.

    Args:
        packages: libraries to add to the images; see harness.images.extra. They may come from a report, and pip builds
            on the host what a URL or a path leads to.

    Raises:
        UsageError: one of them is not the name of a library.
    """

    def __init__(self, folder: Path, machine: str = MACHINE, packages: Sequence[str] = ()) -> None:
        check_packages(packages)
        self._folder = folder
        self._machine = machine
        self._packages = packages
        self._extra: dict[str, str] = {}

    def resolve(self, target: str, cache: Path, progress: Progress, version: str = PYTHON_VERSION) -> None:
        """Find the versions of the added libraries for a target; they are part of its lock from then on."""
        if target not in self._extra:
            pins = self.pins(target)
            names = missing_from(self._packages, pins)
            with building(cache, progress) if names else nullcontext():
                self._extra[target] = extra_lock(names, pins, cache, version, progress)

    def added(self, target: str) -> list[str]:
        """Return what was added to a target's image, such as "pandas==2.3.3"."""
        return [f"{pin.name}=={pin.version}" for pin in read_lock(self._extra.get(target, ""))]

    def supports(self, target: str) -> bool:
        """Return whether there is a lock of `target` for this machine's architecture."""
        return self._machine != ARM or target in ("cpu", "trees-cpu")

    def pinned_base(self) -> str:
        """Return the base image named in the Dockerfile."""
        (pinned,) = re.findall(r"^ARG BASE=(\S+)$", self._read("Dockerfile").decode(), re.MULTILINE)
        return str(pinned)

    def bootstrapped_base(self) -> str:
        """Return the base that images/base.sh builds, named by a hash of the script and its package lock."""
        return f"tfbench-base:{self._digest('base.sh', 'base.lock')}"

    def settings(self) -> list[str]:
        """Return the Dockerfile's ENV, ENTRYPOINT, CMD and USER instructions."""
        dockerfile = self._read("Dockerfile").decode()
        return re.findall(r"^(?:ENV|ENTRYPOINT|CMD|USER) .*$", dockerfile, re.MULTILINE)

    def lock_sha256(self, target: str) -> str:
        """Return the hash of `target`'s lock."""
        return hashlib.sha256(self._text(target)).hexdigest()

    def pins(self, target: str) -> tuple[Pin, ...]:
        """Return what `target`'s lock pins."""
        return read_lock(self._text(target).decode())

    def tag(self, target: str, base: str) -> str:
        """Return the image name, which contains a hash of all inputs of `target` on `base`."""
        digest = self._digest(
            self._lock(target),
            "installer.lock",
            *_FILES,
            also=f"{target} {base}{self._extra.get(target, '')}",
        )
        return f"tfbench:{target}-{digest}"

    def write_context(
        self, target: str, folder: Path, cache: Path, progress: Progress, python_version: str = PYTHON_VERSION
    ) -> Path:
        """Replace `folder` with `target`'s build context and return it.

        Missing wheels are downloaded to `cache`; the context has hard links to them if possible.
        """
        pins = (*self.pins(target), *self.pins("installer"))
        wheels = fetch_wheels(pins, cache, python_version, progress)
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "wheels").mkdir(parents=True)
        for name in _FILES:
            shutil.copyfile(self._folder / name, folder / name)
        (folder / "requirements.lock").write_bytes(self._text(target))
        for wheel in wheels:
            try:
                os.link(wheel, folder / "wheels" / wheel.name)
            except OSError:
                shutil.copyfile(wheel, folder / "wheels" / wheel.name)
        return folder

    def compose_variables(self, base: str) -> str:
        """Return .env for docker-compose, with all targets, because it rejects unset variables."""
        tags = (
            f"TFBENCH_{name.upper().replace('-', '_')}_IMAGE="
            f"{self.tag(name, base) if self.supports(name) else f'tfbench:{name}-none'}\n"
            for name in TARGETS
        )
        return f"TFBENCH_BASE={base}\n{''.join(tags)}"

    def _lock(self, target: str) -> str:
        if target not in (*TARGETS, "installer"):  # it may come from a report
            raise ImageError(f"tfbench has no image {target!r:.40}.", hint=f"It has {', '.join(TARGETS)}.")
        if target != "installer" and not self.supports(target):
            raise ImageError(
                f"There is no {target} image for {self._machine}: TensorFlow's CUDA wheels are for x86_64 only.",
                hint=f"Use --device cpu, or your own image: --image {target}=REF.",
            )
        return f"{target}-{ARM}.lock" if self._machine == ARM and target != "installer" else f"{target}.lock"

    def _text(self, target: str) -> bytes:
        return self._read(self._lock(target)) + self._extra.get(target, "").encode()

    def _digest(self, *names: str, also: str = "") -> str:
        digest = hashlib.sha256(also.encode())
        for name in names:
            digest.update(hashlib.sha256(self._read(name)).digest())
        return digest.hexdigest()[:12]

    def _read(self, name: str) -> bytes:
        path = self._folder / name
        try:
            return path.read_bytes()
        except OSError as error:
            raise ImageError(
                f"Cannot read {path}: {error.strerror}.",
                hint="Run tfbench in a checkout of its repository, which contains the image recipes.",
            ) from error


@contextmanager
def building(cache: Path, progress: Progress) -> Iterator[Path]:
    """Wait for other builds; yield a folder for this build's context, which is removed afterwards.

    Raises:
        StoreError: a file cannot be written.
    """
    with filling(cache / "images.lock", progress):
        folder = cache / "context"
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
