"""Libraries that users add to an image: resolved by the host's pip beside the image's own pins, and pinned by hash."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from harness.errors import ImageError, UsageError
from harness.images.wheels import Pin, pip_error, wheel_options
from harness.progress import Progress
from harness.system.shared_files import working_folder

# "--with auto" stands for what the scripts import.
IMPORTED = "auto"


def check_packages(names: Sequence[str]) -> None:
    """Raise UsageError if one is not the name of a distribution, with a version or without."""
    for name in names:
        try:
            usable = Requirement(name).url is None
        except InvalidRequirement:
            usable = False
        if not usable:
            raise UsageError(
                f"--with {name} is not the name of a library.",
                hint="Write --with pandas,scikit-learn or --with pandas==2.3.3, or --with auto for imports.",
            )


def missing_from(names: Sequence[str], pins: Sequence[Pin]) -> list[str]:
    """Return the libraries that an image with these pins lacks.

    Raises:
        UsageError: it has another version of one.
    """
    there = {canonicalize_name(pin.name): pin.version for pin in pins}
    for wanted in map(Requirement, names):
        version = there.get(canonicalize_name(wanted.name))
        if version and not wanted.specifier.contains(version, prereleases=True):
            raise UsageError(
                f"--with {wanted}: the image has {wanted.name} {version}, which TensorFlow and others in it were "
                "locked with.",
                hint=f"Leave out the version, or pass an image built FROM ours with {wanted} with --image cpu=NAME.",
            )
    return [name for name in names if canonicalize_name(Requirement(name).name) not in there]


def extra_lock(
    names: Sequence[str], pins: Sequence[Pin], cache: Path, python_version: str, progress: Progress
) -> str:
    """Return the lock of libraries and of what they need besides an image's own pins; the cache keeps it.

    Raises:
        ImageError: pip does not find them, or they need other versions than the image has.
        OSError: the cache cannot be written.
    """
    if not names:
        return ""
    constraints = "".join(f"{pin.name}=={pin.version}\n" for pin in pins)
    versions = {pin.name: pin.version for pin in pins}
    if (version := versions.get("tensorflow-cpu")) and "tensorflow" not in versions:
        constraints += (
            f"tensorflow=={version}\n"  # which libraries name; it is not installed beside tensorflow-cpu
        )
    key = hashlib.sha256("\n".join((*sorted(names), python_version, constraints)).encode()).hexdigest()[:16]
    folder = cache / "extra"
    path = folder / f"{key}.lock"
    with suppress(OSError):
        return path.read_text(encoding="utf-8")
    folder.mkdir(parents=True, exist_ok=True)
    with (
        working_folder(folder) as scratch,
        progress.task(f"versions of {', '.join(names)}", None),
    ):
        found = _resolved(names, constraints, scratch, python_version)
        there = {canonicalize_name(pin.name) for pin in pins} | {"tensorflow"}
        text = "".join(
            f"{name}=={version} \\\n    --hash=sha256:{sha256}\n"
            for name, version, sha256 in sorted(found)
            if name not in there
        )
        partial = scratch / "lock"
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    return text


def _resolved(
    names: Sequence[str], constraints: str, scratch: Path, python_version: str
) -> list[tuple[str, str, str]]:
    """Return the name, version and SHA-256 of each wheel that pip would install."""
    (scratch / "constraints.txt").write_text(constraints, encoding="utf-8")
    command = [
        sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--no-input",
        "--no-cache-dir", "--disable-pip-version-check", f"--report={scratch / 'report.json'}",
        f"--target={scratch / 'target'}", f"--constraint={scratch / 'constraints.txt'}",
        *wheel_options(python_version), "--", *names,
    ]  # fmt: skip
    done = subprocess.run(
        command,
        # In the user's folder, Python would import a json.py, and pip build an archive named like a library.
        cwd=scratch,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        raise _error(names, done.stdout + done.stderr)
    report = json.loads((scratch / "report.json").read_text(encoding="utf-8"))
    return [_found(each) for each in report["install"]]


def _found(item: Any) -> tuple[str, str, str]:
    return (
        canonicalize_name(item["metadata"]["name"]),
        item["metadata"]["version"],
        item["download_info"]["archive_info"]["hashes"]["sha256"],
    )


def _error(names: Sequence[str], log: str) -> ImageError:
    missing = re.search(r"No matching distribution found for ([\w.-]+)", log)
    if not missing and "ResolutionImpossible" not in log:
        return pip_error(log)
    needed = dict.fromkeys(
        re.findall(r"^ +.+ depends on ([\w.-]+)", log.partition("conflict is caused by")[2], re.M)
    )
    # Of each version that pip has tried the same one is missing, or each needs another version of what the image has.
    absent = missing[1].rstrip(".") if missing else next(iter(needed), "") if len(needed) == 1 else ""
    others = [
        name for name in names if canonicalize_name(Requirement(name).name) != canonicalize_name(absent)
    ]
    told = f"{', '.join(names)} cannot be added to the image: "
    if absent and len(others) == len(names):
        return ImageError(
            f"{told}there is no wheel of {absent}, which it needs.",
            hint=f"If you trust its source, build one: pip wheel --no-deps {absent} -w wheels. Then run again with "
            "PIP_FIND_LINKS=$PWD/wheels in the environment.",
        )
    reason = (
        f"pip finds no wheel of {absent}." if absent else "their versions do not go with those of the image."
    )
    own = f"If it is your own module, leave it out: --with {','.join(others)}. " if absent and others else ""
    return ImageError(
        told + reason,
        hint=own
        + "Check the name and the version, and with `pip download NAME` whether pip reaches its index (a "
        "proxy may answer instead); or build an image FROM ours and pass it with --image cpu=NAME.",
    )
