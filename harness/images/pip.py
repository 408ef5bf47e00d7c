"""Use the host's own pip, with the host's own configuration of it, and say what went wrong in our words."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from harness.errors import ImageError
from harness.images.locks import PLATFORMS, Pin

DISK_HINT = "Free some space (the CUDA wheels take 3.3 GB) or set TFBENCH_CACHE to a roomier folder."
_POLL_S = 0.05
_QUIET = (
    "--disable-pip-version-check",
    "--no-input",
    "--progress-bar=off",
    "--require-hashes",
    "--only-binary=:all:",
)


def download(pin: Pin, python_version: str, out: Path, cancelled: threading.Event) -> None:
    """Fetch `pin`'s wheel for CPython `python_version` on x86_64 Linux into the empty folder `out`.

    Returns without a wheel once `cancelled` is set.

    Raises:
        ImageError: a hash is wrong, no index answers or none has it, the disk is full.
    """
    tag = "cp" + python_version.replace(".", "")
    requirements = out / "requirements.txt"
    requirements.write_text(pin.text + "\n", encoding="utf-8")
    # No pip cache: it would keep a second copy of gigabytes.
    arguments = (
        "download", "--no-deps", "--no-cache-dir", *_QUIET,
        f"--python-version={python_version}", "--implementation=cp",
        f"--abi={tag}", "--abi=abi3", "--abi=none", *(f"--platform={p}" for p in PLATFORMS),
        f"--dest={out}", f"--requirement={requirements}",
    )  # fmt: skip
    _run(arguments, out, f"{pin.name} {pin.version}", cancelled)


def install(python: Path, requirements: Path, wheels: Path, work: Path, cancelled: threading.Event) -> None:
    """Install hash-checked `requirements` out of the folder `wheels` into the environment of `python`.

    Raises:
        ImageError: it cannot be done.
    """
    arguments = (
        f"--python={python}", "install", "--no-deps", "--no-cache-dir", "--no-index", *_QUIET,
        f"--find-links={wheels}", f"--requirement={requirements}",
    )  # fmt: skip
    _run(arguments, work, "the local environment", cancelled)


def _run(arguments: Sequence[str], work: Path, what: str, cancelled: threading.Event) -> None:
    log = work / "pip.log"
    command = [sys.executable, "-m", "pip", *arguments]
    with log.open("wb") as sink:
        # TMPDIR: /tmp is often small, and what grows beside the cache can be shown.
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            env={**os.environ, "TMPDIR": str(work)},
        )
        try:
            while process.poll() is None and not cancelled.wait(_POLL_S):
                pass
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    if process.returncode != 0 and not cancelled.is_set():
        raise _error(what, log.read_text(encoding="utf-8", errors="replace"))


def _error(what: str, log: str) -> ImageError:
    if "DO NOT MATCH THE HASHES" in log:
        return ImageError(
            f"What the index gave as {what} is not the file that the lock pins (wrong sha256).",
            hint="Try another index (see `pip config list`); if it persists, the file was tampered with "
            "or a proxy changed it.",
        )
    if "No space left on device" in log:
        return ImageError(
            f"The disk filled up while {what} was downloaded.",
            hint=DISK_HINT,
        )
    if "No module named pip" in log:
        return ImageError(
            f"{sys.executable} has no pip to download with.", hint=f"Run: {sys.executable} -m ensurepip"
        )
    if "Retrying (" in log or "Failed to establish a new connection" in log or "ERROR: HTTP error" in log:
        return ImageError(
            f"No package index answered when {what} was asked for.",
            hint="Check the network and pip's configuration (proxy, index, certificates), or copy the "
            "wheels from another machine into the cache's folder `wheels` ($TFBENCH_CACHE).",
        )
    last = next((line for line in reversed(log.splitlines()) if line.startswith("ERROR")), log[-300:].strip())
    return ImageError(
        f"pip could not download {what}: {last.removeprefix('ERROR: ')}",
        hint="Check that your package index carries it (`pip config list`), or put the wheel into the "
        "cache's folder `wheels` ($TFBENCH_CACHE).",
    )
