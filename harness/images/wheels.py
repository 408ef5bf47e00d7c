"""The wheels that lock files pin by hash: downloaded with the host's pip, kept in the cache, listed in an SBOM.

pip's configuration applies: index, proxy, certificates. Without network, copy the wheels to any place below
the cache's folder `wheels`. Hashes are verified at every use.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from harness import __version__
from harness.errors import ImageError
from harness.model.platform import ImageInfo
from harness.progress import Progress, Task
from harness.system.shared_files import file_sha256, working_folder

_PIN = re.compile(r"^([\w.-]+)==(\S+)((?: \\\n +--hash=sha256:\w+)+)", re.MULTILINE)
_SHA256 = re.compile(r"sha256:(\w+)")
# Written by images/lock.sh.
_SIZE = re.compile(r"^# (\S+): (\d+) bytes$", re.MULTILINE)
MACHINE = platform.machine()
# Those with locks.
MACHINES = ("x86_64", "aarch64")
# Up to the newest tag of TensorFlow's wheels; newest first, like pip's ranking.
_TAGS = (
    *(f"manylinux_2_{minor}" for minor in range(28, 4, -1)),
    "manylinux2014",
    "manylinux2010",
    "manylinux1",
)
_PARALLEL = 4
_POLL_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One pinned requirement: version, SHA-256 of each allowed file, and size of the wheel in bytes."""

    name: str
    version: str
    sha256: frozenset[str]
    size: int = 0

    @property
    def text(self) -> str:
        """The pin in the format of pip's requirements files."""
        return f"{self.name}=={self.version} " + " ".join(f"--hash=sha256:{h}" for h in sorted(self.sha256))


def read_lock(text: str) -> tuple[Pin, ...]:
    """Parse a lock written by images/lock.sh."""
    sizes = dict(_SIZE.findall(text))
    return tuple(
        Pin(
            name=name,
            version=version,
            sha256=frozenset(_SHA256.findall(hashes)),
            size=int(sizes.get(name, 0)),
        )
        for name, version, hashes in _PIN.findall(text)
    )


def fetch_wheels(
    pins: Sequence[Pin], cache: Path, python_version: str, progress: Progress
) -> tuple[Path, ...]:
    """Return a wheel for each pin from `<cache>/wheels`; missing and damaged ones are downloaded.

    Raises:
        ImageError: a hash is wrong, no index is reachable, or the platform is not supported.
        OSError: the cache cannot be written.
    """
    if platform.system() != "Linux" or MACHINE not in MACHINES:
        raise ImageError(
            f"This host is {platform.system()} on {MACHINE}; the locks are for Linux on {' and '.join(MACHINES)}.",
            hint="Use such a host, or a custom image: --image cpu=REF.",
        )
    folder = cache / "wheels"
    folder.mkdir(parents=True, exist_ok=True)
    wheels = _verified(pins, folder, python_version, progress)
    if missing := [pin for pin in pins if pin not in wheels]:
        with (
            working_folder(folder) as scratch,
            progress.task(f"wheels for Python {python_version}", sum(pin.size for pin in missing)) as bar,
        ):
            _download(missing, scratch, folder, python_version, bar)
        wheels |= _verified(missing, folder, python_version, progress)
    return tuple(wheels[pin] for pin in pins)


def _verified(pins: Sequence[Pin], folder: Path, python_version: str, progress: Progress) -> dict[Pin, Path]:
    """Return the wheels in `folder`; delete those with a wrong hash."""
    wheels: dict[Pin, Path] = {}
    for pin, path, sha256 in _hashed(pins, folder, python_version):
        if sha256 in pin.sha256:
            wheels.setdefault(pin, path)
        else:
            progress.line(f"{path} does not match the lock (sha256 {sha256[:12]}). Downloading it again.")
            path.unlink(missing_ok=True)
    return wheels


def wheel_hashes(pins: Sequence[Pin], cache: Path, python_version: str) -> dict[Pin, str]:
    """Return pin -> SHA-256 of its wheel in the cache, "" if it is not there."""
    found = {
        pin: sha256
        for pin, _, sha256 in _hashed(pins, cache / "wheels", python_version)
        if sha256 in pin.sha256
    }
    return {pin: found.get(pin, "") for pin in pins}


def _hashed(pins: Sequence[Pin], folder: Path, python_version: str) -> Iterator[tuple[Pin, Path, str]]:
    candidates = [
        (pin, path)
        for path in sorted(folder.rglob("*.whl"))
        for pin in pins
        if is_wheel_of(path.name, pin, python_version)
    ]
    with ThreadPoolExecutor() as pool:
        hashes = pool.map(lambda candidate: file_sha256(candidate[1]), candidates)
        for (pin, path), sha256 in zip(candidates, hashes, strict=True):
            yield pin, path, sha256


def _download(pins: Sequence[Pin], scratch: Path, folder: Path, python_version: str, bar: Task) -> None:
    # Split into shares of similar size.
    ordered = sorted(pins, key=lambda pin: pin.size)
    processes = {
        out: _start_pip(share, out, python_version)
        for number in range(_PARALLEL)
        if (out := scratch / str(number)) and (share := ordered[number::_PARALLEL])
    }
    done = 0
    try:
        # Wait until all have ended or one has failed.
        while None in (codes := [process.poll() for process in processes.values()]) and not any(codes):
            time.sleep(_POLL_S)
            previous, done = done, max(done, _downloaded_bytes(scratch))
            bar.advance(done - previous)
    finally:
        for process in processes.values():
            process.terminate()
            process.wait()
        # Also kept after an interrupt, because hashes are verified at use.
        for wheel in scratch.glob("*/*.whl"):
            wheel.replace(folder / wheel.name)
    for out, process in processes.items():
        if process.returncode > 0:
            raise pip_error((out / "pip.log").read_text(encoding="utf-8", errors="replace"))


def _start_pip(pins: Sequence[Pin], out: Path, python_version: str) -> subprocess.Popen[bytes]:
    # /tmp is often small, and the progress bar measures this folder.
    environment = {**os.environ, "TMPDIR": str(out / "tmp")}
    (out / "tmp").mkdir(parents=True)
    requirements = out / "requirements.txt"
    requirements.write_text("".join(f"{pin.text}\n" for pin in pins), encoding="utf-8")
    # pip's cache would keep a second copy of gigabytes.
    command = [
        sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir", "--disable-pip-version-check",
        "--no-input", "--progress-bar=off", "--require-hashes", *wheel_options(python_version),
        f"--dest={out}", f"--requirement={requirements}",
    ]  # fmt: skip
    with (out / "pip.log").open("wb") as log:
        return subprocess.Popen(
            command,
            cwd=out,  # in the user's folder, Python would import a json.py
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
        )


def wheel_options(python_version: str) -> list[str]:
    """Return pip's options for wheels of CPython `python_version` on this machine's Linux."""
    return [
        "--only-binary=:all:", f"--python-version={python_version}", "--implementation=cp",
        f"--abi=cp{python_version.replace('.', '')}", "--abi=abi3", "--abi=none",
        *(f"--platform={tag}_{MACHINE}" for tag in _TAGS),
    ]  # fmt: skip


def _downloaded_bytes(scratch: Path) -> int:
    """Return the bytes in pip's temporary folders; pip copies wheels to their destination at the end."""
    with suppress(FileNotFoundError):  # removed by pip in the meantime
        return sum(wheel.stat().st_size for wheel in scratch.glob("*/tmp/*/*.whl"))
    return 0


def pip_error(log: str) -> ImageError:
    """Return the error of which pip's output tells."""
    network_errors = ("Retrying (", "Failed to establish a new connection", "ERROR: HTTP error")
    errors = [line.removeprefix("ERROR: ") for line in log.splitlines() if line.startswith("ERROR")]
    # Of an exception in pip, the last line is the reason.
    reason = errors[-1] if errors and errors[-1] != "Exception:" else log[-300:].strip().rpartition("\n")[2]
    return ImageError(
        "The package index is not reachable."
        if any(text in log for text in network_errors)
        else f"pip could not download the wheels: {reason}",
        hint="Check free space, `ulimit -f`, the network and pip's configuration (`pip config list`: index, proxy, "
        "certificates), or copy the wheels from another machine to the cache's folder `wheels` ($TFBENCH_CACHE).",
    )


@cache
def wheel_tags(python_version: str, machine: str) -> frozenset[Tag]:
    """Return the wheel tags compatible with CPython `python_version` ("3.13") on Linux."""
    platforms = [f"{tag}_{machine}" for tag in _TAGS]
    major, minor = (int(part) for part in python_version.split("."))
    interpreter = f"cp{major}{minor}"
    return frozenset(
        (
            *cpython_tags(python_version=(major, minor), abis=[interpreter], platforms=platforms),
            *compatible_tags(python_version=(major, minor), interpreter=interpreter, platforms=platforms),
        )
    )


def is_wheel_of(filename: str, pin: Pin, python_version: str, machine: str = MACHINE) -> bool:
    """Return whether a file name is that of a wheel of `pin` for `python_version`."""
    try:
        name, version, _, tags = parse_wheel_filename(filename)
    except InvalidWheelFilename:
        return False
    matches = name == pin.name and version == Version(pin.version)
    return matches and not tags.isdisjoint(wheel_tags(python_version, machine))


def sbom(image: ImageInfo, wheels: Mapping[Pin, str], packages: str, distribution: str) -> bytes:
    """Return the software bill of materials of an image, as CycloneDX 1.5.

    It is the same for the same contents: it has no time, and its number is derived from them. Written with the
    standard library: cyclonedx-python-lib would bring six packages to every installation for these few fields. The
    tests check the result with its strict schema.

    Args:
        wheels: each pin of the image's lock, with the SHA-256 of its wheel, "" if unknown.
        packages: /var/lib/dpkg/status of the image, "" if there is none.
        distribution: its ID in os-release, such as "debian".
    """
    components = [_base(image.base), *map(_wheel, wheels.items()), *_packages(packages, distribution)]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "tools": {"components": [_component("application", "tfbench", __version__, "tool")]},
            "component": {
                **_component("container", image.reference.partition(":")[0], image.contents, "image"),
                "properties": [
                    {"name": "tfbench:target", "value": image.target},
                    {"name": "tfbench:lock-sha256", "value": image.lock_sha256},
                ],
            },
        },
        "components": components,
        "dependencies": [{"ref": "image", "dependsOn": [component["bom-ref"] for component in components]}],
    }
    number = uuid.uuid5(uuid.NAMESPACE_OID, json.dumps(document))
    return (json.dumps({"serialNumber": f"urn:uuid:{number}", **document}, indent=1) + "\n").encode()


def _component(kind: str, name: str, version: str, reference: str) -> dict[str, Any]:
    return {"type": kind, "bom-ref": reference, "name": name, "version": version}


def _base(reference: str) -> dict[str, Any]:
    """Return the base image; its name ends with a digest, or with a tag that is a hash of its recipe."""
    name, _, version = reference.partition("@") if "@" in reference else reference.rpartition(":")
    return _component("container", name, version, "base")


def _wheel(item: tuple[Pin, str]) -> dict[str, Any]:
    pin, sha256 = item
    purl = f"pkg:pypi/{re.sub('[-_.]+', '-', pin.name).lower()}@{quote(pin.version)}"
    hashes = {"hashes": [{"alg": "SHA-256", "content": sha256}]} if sha256 else {}
    return {**_component("library", pin.name, pin.version, purl), **hashes, "purl": purl}


def _packages(status: str, distribution: str) -> Iterator[dict[str, Any]]:
    for fields in _paragraphs(status):
        if fields.get("Status") == "install ok installed" and fields.keys() >= {
            "Package",
            "Version",
            "Architecture",
        }:
            name, version = fields["Package"], fields["Version"]
            purl = f"pkg:deb/{distribution}/{quote(name)}@{quote(version, safe=':~')}?arch={fields['Architecture']}"
            yield {**_component("library", name, version, purl), "purl": purl}


def _paragraphs(status: str) -> Iterable[dict[str, str]]:
    """Parse a Debian control file, without the continuation lines of its fields."""
    for paragraph in status.split("\n\n"):
        yield dict(re.findall(r"^([\w-]+): (.*)$", paragraph, re.MULTILINE))
