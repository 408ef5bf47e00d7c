"""The local engine's Python environment, created from the same locks and wheels as the images."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.errors import ImageError, last_lines
from harness.images.recipes import Recipes, building
from harness.model.platform import ImageInfo
from harness.progress import Progress
from harness.system.shared_files import replacing

# Python versions with TensorFlow wheels in the locks; newest first.
SUPPORTED = ("3.13", "3.12", "3.11")


def ensure_environment(
    target: str, checkout: Path, cache: Path, progress: Progress, packages: Sequence[str] = ()
) -> ImageInfo:
    """Return `target`'s virtual environment, created if necessary; `reference` is the path of its Python.

    There is one environment per lock and interpreter, in `<cache>/environments/`.

    Args:
        packages: libraries to add; see harness.images.extra.

    Raises:
        ImageError: there is no supported Python, or wheels cannot be downloaded or installed.
    """
    recipes = Recipes(checkout / "images", packages=packages)
    interpreter, version = _interpreter()
    recipes.resolve(target, cache, progress, version)
    lock_sha256 = recipes.lock_sha256(target)
    key = hashlib.sha256(f"{lock_sha256} {interpreter} {version}".encode()).hexdigest()
    folder = cache / "environments" / key[:16]
    python = folder / "bin" / "python"
    # Also false for a dangling link, if the interpreter was removed.
    if not python.exists():
        with building(cache, progress) as context:
            if not python.exists():
                recipes.write_context(target, context, cache, progress, version)
                # Moving an environment breaks the first lines of its scripts, but only its Python is used.
                with replacing(folder) as new, progress.task(f"local environment, Python {version}", None):
                    _install(context, new, interpreter)
    return ImageInfo(
        target=target,
        reference=str(python),
        digest=f"sha256:{key}",
        base=f"{interpreter} ({version})",
        lock_sha256=lock_sha256,
    )


def local_version() -> str:
    """Return the version of the Python that local environments have."""
    return _interpreter()[1]


def library_variables(python: Path) -> dict[str, str]:
    """Return the variables that TensorFlow needs to find CUDA wheels installed with `python`; {} without any.

    Without these variables it silently trains on the CPU, and XLA does not find ptxas and libdevice.
    images/image.sh does the same with ldconfig.
    """
    libraries = sorted(python.parent.parent.glob("lib/python3*/site-packages/nvidia/*/lib"))
    if not libraries:
        return {}
    compiler = libraries[0].parent.parent / "cuda_nvcc"
    folders = [*map(str, libraries)]
    if inherited := os.environ.get("LD_LIBRARY_PATH"):
        folders.append(inherited)
    return {
        "LD_LIBRARY_PATH": os.pathsep.join(folders),
        "XLA_FLAGS": f"--xla_gpu_cuda_data_dir={compiler}",
        "PATH": os.pathsep.join([str(compiler / "bin"), os.environ.get("PATH", os.defpath)]),
    }


def _interpreter() -> tuple[Path, str]:
    """Return a Python that TensorFlow supports, and its version; preferably the running one."""
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    if running in SUPPORTED:
        # The base installation, which is the same for all its virtual environments.
        return Path(sys.base_prefix) / "bin" / f"python{running}", running
    for version in SUPPORTED:
        if result := shutil.which(f"python{version}"):
            return Path(result), version
    raise ImageError(
        f"The local engine needs Python {SUPPORTED[-1]} to {SUPPORTED[0]} for TensorFlow; this is {running}, and "
        "there is no other on PATH.",
        hint="Install one of these versions, or start a container engine (`make engine`).",
    )


def _install(context: Path, folder: Path, interpreter: Path) -> None:
    command = ["sh", str(context / "install.sh"), str(folder), str(interpreter)]
    result = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if result.returncode != 0:
        raise ImageError(
            f"Could not install the local environment:\n{last_lines(result.stderr or result.stdout)}",
            hint="Free some space, or set TFBENCH_CACHE to a folder on another disk.",
        )
