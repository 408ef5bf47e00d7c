"""Keep the wheels of the locks in the cache, and fetch what is missing with the host's own pip.

The user's configuration of pip holds: index, proxy, certificates. Without a network, put the wheels, or another
machine's whole folder of them, anywhere under the cache's folder `wheels`. Every use checks every wheel's hash.
"""

from __future__ import annotations

import os
import platform
import re
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

DISK_HINT = "Free some space (the CUDA wheels take 3.3 GB) or set TFBENCH_CACHE to a roomier folder."
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
        ImageError: a hash is wrong, an index does not answer, the disk is full, or this host has another platform.
    """
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        raise ImageError(
            f"This host is {platform.system()} on {platform.machine()}; the locks are for x86_64 Linux only.",
            hint="Use an x86_64 Linux host, or an image of your own: --image cpu=REF.",
        )
    folder = cache / "wheels"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Those who fetch take turns: what lies there is of a process that was killed.
        for old in folder.glob(".partial-*"):
            shutil.rmtree(old, ignore_errors=True)
        wheels = _checked(pins, folder, python_version, progress)
        if missing := [pin for pin in pins if pin not in wheels]:
            sizes = [pin.size for pin in missing]
            total = sum(sizes) if all(sizes) else None
            with (
                tempfile.TemporaryDirectory(prefix=".partial-", dir=folder) as scratch,
                progress.task(f"wheels for Python {python_version}", total, "B") as bar,
            ):
                _download(missing, Path(scratch), folder, python_version, bar)
            wheels |= _checked(missing, folder, python_version, progress)
    except OSError as error:
        raise ImageError(
            f"The wheel cache {folder} cannot be written: {error.strerror}.", hint=DISK_HINT
        ) from error
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
    shares = [share for share in _shares(pins) if share]
    outs = [scratch / str(index) for index in range(len(shares))]
    processes = [_start_pip(share, out, python_version) for share, out in zip(shares, outs, strict=True)]
    done = 0
    try:
        while any(process.poll() is None for process in processes):
            if any(process.poll() for process in processes):
                break
            time.sleep(_POLL_S)
            before, done = done, max(done, _bytes(scratch))
            bar.advance(done - before)
    finally:
        for process in processes:
            process.terminate()
            process.wait()
        # An interrupted download keeps what it has; the hashes are checked when they are used.
        for wheel in scratch.glob("*/*.whl"):
            wheel.replace(folder / wheel.name)
    for process, out in zip(processes, outs, strict=True):
        if process.returncode > 0:
            raise _error((out / "pip.log").read_text(encoding="utf-8", errors="replace"))


def _shares(pins: Sequence[Pin]) -> list[list[Pin]]:
    """Split `pins` into shares of about as many bytes each."""
    shares: list[list[Pin]] = [[] for _ in range(_PARALLEL)]
    for pin in sorted(pins, key=lambda pin: pin.size, reverse=True):
        min(shares, key=lambda share: (sum(p.size for p in share), len(share))).append(pin)
    return shares


def _start_pip(pins: Sequence[Pin], out: Path, python_version: str) -> subprocess.Popen[bytes]:
    out.mkdir()
    requirements = out / "requirements.txt"
    requirements.write_text("".join(f"{pin.text}\n" for pin in pins), encoding="utf-8")
    tag = "cp" + python_version.replace(".", "")
    # No pip cache: it would keep a second copy of gigabytes.
    command = [
        sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir", "--disable-pip-version-check",
        "--no-input", "--progress-bar=off", "--require-hashes", "--only-binary=:all:",
        f"--python-version={python_version}", "--implementation=cp",
        f"--abi={tag}", "--abi=abi3", "--abi=none", *(f"--platform={name}" for name in PLATFORMS),
        f"--dest={out}", f"--requirement={requirements}",
    ]  # fmt: skip
    with (out / "pip.log").open("wb") as log:
        # TMPDIR: /tmp is often small, and what grows beside the cache can be shown.
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, "TMPDIR": str(out)}
        )


def _bytes(folder: Path) -> int:
    """Return how many bytes of wheels lie in `folder`; pip has a whole one twice for a moment."""
    sizes: dict[str, int] = {}
    for root, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".whl"):
                with suppress(OSError):
                    sizes[name] = max(sizes.get(name, 0), (Path(root) / name).stat().st_size)
    return sum(sizes.values())


def _error(log: str) -> ImageError:
    if "DO NOT MATCH THE HASHES" in log:
        wheel = re.search(r"^\s+(\S+==\S+) from ", log, re.MULTILINE)
        return ImageError(
            f"What the index gave as {wheel[1] if wheel else 'a wheel'} is not the file that the lock pins "
            "(wrong sha256).",
            hint="Try another index (see `pip config list`); if it persists, the file was tampered with "
            "or a proxy changed it.",
        )
    if "No space left on device" in log:
        return ImageError("The disk filled up while wheels were downloaded.", hint=DISK_HINT)
    if "No module named pip" in log:
        return ImageError(
            f"{sys.executable} has no pip to download with.", hint=f"Run: {sys.executable} -m ensurepip"
        )
    if any(
        sign in log for sign in ("Retrying (", "Failed to establish a new connection", "ERROR: HTTP error")
    ):
        return ImageError(
            "No package index answered.",
            hint="Check the network and pip's configuration (proxy, index, certificates), or copy the "
            "wheels from another machine into the cache's folder `wheels` ($TFBENCH_CACHE).",
        )
    errors = [line.removeprefix("ERROR: ") for line in log.splitlines() if line.startswith("ERROR")]
    return ImageError(
        f"pip could not download the wheels: {errors[-1] if errors else log[-300:].strip()}",
        hint="Check that your package index carries it (`pip config list`), or put the wheel into the "
        "cache's folder `wheels` ($TFBENCH_CACHE).",
    )
