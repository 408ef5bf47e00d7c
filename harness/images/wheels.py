"""Keep the wheels of the locks in the cache, and fetch what is missing with the host's own pip.

The user's configuration of pip holds: index, proxy, certificates. Without a network, put the wheels, or another
machine's whole folder of them, anywhere under the cache's folder `wheels`. Every use checks every wheel's hash.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from harness.digests import file_sha256
from harness.errors import ImageError
from harness.images.locks import PLATFORMS, Pin, fits
from harness.progress import Progress, Task

_PARALLEL = 4
_POLL_S = 0.1


def fetch_wheels(
    pins: Sequence[Pin], cache: Path, python_version: str, progress: Progress
) -> tuple[Path, ...]:
    """Return a wheel in `cache` for each of `pins`, its hash checked; a damaged one is named and fetched again.

    Args:
        pins: what a lock asks for.
        cache: root of the cache; wheels live in its folder `wheels`.
        python_version: CPython to fetch for, e.g. "3.13"; the platform is always x86_64 Linux.
        progress: gets one bar of bytes when something is missing.

    Raises:
        ImageError: a hash is wrong, an index does not answer, or this host has another platform.
        OSError: the cache cannot be written.
    """
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise ImageError(
            f"This host is {platform.system()} on {platform.machine()}; the locks are for x86_64 Linux only.",
            hint="Use an x86_64 Linux host, or an image of your own: --image cpu=REF.",
        )
    folder = cache / "wheels"
    folder.mkdir(parents=True, exist_ok=True)
    # Those who fetch take turns: what lies there is of a process that was killed.
    for old in folder.glob(".partial-*"):
        shutil.rmtree(old)
    wheels = _checked(pins, folder, python_version, progress)
    if missing := [pin for pin in pins if pin not in wheels]:
        with (
            tempfile.TemporaryDirectory(prefix=".partial-", dir=folder) as scratch,
            progress.task(f"wheels for Python {python_version}", sum(pin.size for pin in missing)) as bar,
        ):
            _download(missing, Path(scratch), folder, python_version, bar)
        wheels |= _checked(missing, folder, python_version, progress)
    return tuple(wheels[pin] for pin in pins)


def _checked(pins: Sequence[Pin], folder: Path, python_version: str, progress: Progress) -> dict[Pin, Path]:
    """Return the wheels that are here; those whose content is not what the lock pins are removed."""
    candidates = [
        (pin, path)
        for path in sorted(folder.rglob("*.whl"))
        for pin in pins
        if fits(path.name, pin, python_version)
    ]
    wheels: dict[Pin, Path] = {}
    with ThreadPoolExecutor() as pool:
        hashes = pool.map(lambda candidate: file_sha256(candidate[1]), candidates)
        for (pin, path), sha256 in zip(candidates, hashes, strict=True):
            if sha256 in pin.sha256:
                wheels.setdefault(pin, path)
            else:
                progress.line(
                    f"{path} is not what the lock pins (sha256 {sha256[:12]}): it is fetched again."
                )
                path.unlink(missing_ok=True)
    return wheels


def _download(pins: Sequence[Pin], scratch: Path, folder: Path, python_version: str, bar: Task) -> None:
    # Shares of about as many bytes each.
    ordered = sorted(pins, key=lambda pin: pin.size)
    processes = {
        out: _start_pip(share, out, python_version)
        for number in range(_PARALLEL)
        if (out := scratch / str(number)) and (share := ordered[number::_PARALLEL])
    }
    done = 0
    try:
        # Until all have ended, or one has failed.
        while None in (codes := [process.poll() for process in processes.values()]) and not any(codes):
            time.sleep(_POLL_S)
            before, done = done, max(done, _downloaded(scratch))
            bar.advance(done - before)
    finally:
        for process in processes.values():
            process.terminate()
            process.wait()
        # An interrupted download keeps what it has; the hashes are checked when they are used.
        for wheel in scratch.glob("*/*.whl"):
            wheel.replace(folder / wheel.name)
    for out, process in processes.items():
        if process.returncode > 0:
            raise _error((out / "pip.log").read_text(encoding="utf-8", errors="replace"))


def _start_pip(pins: Sequence[Pin], out: Path, python_version: str) -> subprocess.Popen[bytes]:
    # TMPDIR: /tmp is often small, and what grows beside the cache can be shown.
    environment = {**os.environ, "TMPDIR": str(out / "tmp")}
    (out / "tmp").mkdir(parents=True)
    requirements = out / "requirements.txt"
    requirements.write_text("".join(f"{pin.text}\n" for pin in pins), encoding="utf-8")
    # No pip cache: it would keep a second copy of gigabytes.
    command = [
        sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir", "--disable-pip-version-check",
        "--no-input", "--progress-bar=off", "--require-hashes", "--only-binary=:all:",
        f"--python-version={python_version}", "--implementation=cp",
        f"--abi=cp{python_version.replace('.', '')}", "--abi=abi3", "--abi=none",
        *(f"--platform={name}" for name in PLATFORMS), f"--dest={out}", f"--requirement={requirements}",
    ]  # fmt: skip
    with (out / "pip.log").open("wb") as log:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)


def _downloaded(scratch: Path) -> int:
    """Return how many bytes of wheels pip has in its temporary folders, from which it moves them when all are there."""
    with suppress(FileNotFoundError):  # what pip moves or removes at this moment
        return sum(wheel.stat().st_size for wheel in scratch.glob("*/tmp/*/*.whl"))
    return 0


def _error(log: str) -> ImageError:
    signs = ("Retrying (", "Failed to establish a new connection", "ERROR: HTTP error")
    errors = [line.removeprefix("ERROR: ") for line in log.splitlines() if line.startswith("ERROR")]
    reason = errors[-1] if errors else log[-300:].strip()
    return ImageError(
        "No package index answered."
        if any(sign in log for sign in signs)
        else f"pip could not download the wheels: {reason}",
        hint="Check free space, the network and pip's configuration (`pip config list`: index, proxy, certificates), "
        "or copy the wheels from another machine into the cache's folder `wheels` ($TFBENCH_CACHE).",
    )
