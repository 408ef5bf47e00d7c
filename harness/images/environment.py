"""The local engine's Python environment, made of the same locks and wheels as the images."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from harness.errors import ImageError
from harness.images.recipes import Recipes, building, last_lines
from harness.model.platform import ImageInfo
from harness.progress import Progress
from harness.system.file_locks import replacing

# TensorFlow's wheels in the locks; newest first.
SUPPORTED = ("3.13", "3.12", "3.11")


def ensure_environment(target: str, checkout: Path, cache: Path, progress: Progress) -> ImageInfo:
    """Return `target`'s virtual environment, made if there is none; `reference` is the path of its Python.

    Each lock and interpreter has one, under `<cache>/environments/`.

    Args:
        target: one of TARGETS.
        checkout: the folder that holds docker-compose.yml and images/.
        cache: root of the cache.
        progress: where bars and remarks go.

    Raises:
        ImageError: this host has no fitting Python, or wheels cannot be had or installed.
    """
    recipes = Recipes(checkout / "images")
    lock_sha256 = recipes.lock_sha256(target)
    interpreter, version = _interpreter()
    key = hashlib.sha256(f"{lock_sha256} {interpreter} {version}".encode()).hexdigest()
    folder = cache / "environments" / key[:16]
    python = folder / "bin" / "python"
    # A link to an interpreter that the host has since removed does not exist either.
    if not python.exists():
        with building(cache, progress) as context:
            if not python.exists():
                recipes.lay_out(target, context, cache, progress, version)
                # Moving an environment spoils its scripts' first lines; its Python, all that is used, finds its home
                # by its own path.
                with replacing(folder) as made, progress.task(f"local environment, Python {version}", None):
                    _install(context, made, interpreter)
    return ImageInfo(
        target=target,
        reference=str(python),
        digest=f"sha256:{key}",
        base=f"{interpreter} ({version})",
        lock_sha256=lock_sha256,
        note="virtual environment on the host: nothing is isolated",
    )


def library_variables(python: Path) -> dict[str, str]:
    """Return the environment variables with which TensorFlow finds the CUDA wheels beside `python`.

    TensorFlow's wheel does not find the libraries of its own CUDA wheels: it would register no GPU and
    train on the CPU without a word. XLA looks for ptxas and libdevice under its own data directory. The
    CUDA image does the same with ldconfig (images/image.sh). Empty where there are no CUDA wheels.
    """
    libraries = sorted(python.parent.parent.glob("lib/python3*/site-packages/nvidia/*/lib"))
    if not libraries:
        return {}
    compiler = libraries[0].parent.parent / "cuda_nvcc"
    inherited = [path for path in (os.environ.get("LD_LIBRARY_PATH"),) if path]
    return {
        "LD_LIBRARY_PATH": os.pathsep.join([*map(str, libraries), *inherited]),
        "XLA_FLAGS": f"--xla_gpu_cuda_data_dir={compiler}",
        "PATH": os.pathsep.join([str(compiler / "bin"), os.environ.get("PATH", os.defpath)]),
    }


def _interpreter() -> tuple[Path, str]:
    """Return the Python to base environments on, and its version: this one if TensorFlow supports it."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    if here in SUPPORTED:
        # The base installation, so that every virtual environment of it gets the same one here.
        return Path(sys.base_prefix) / "bin" / f"python{here}", here
    for version in SUPPORTED:
        if result := shutil.which(f"python{version}"):
            return Path(result), version
    raise ImageError(
        f"The local engine needs Python {SUPPORTED[-1]} to {SUPPORTED[0]} for TensorFlow; this is "
        f"{here}, and there is no other on PATH.",
        hint="Install one of them, or start a container engine (`make engine`), which brings its own.",
    )


def _install(context: Path, folder: Path, interpreter: Path) -> None:
    command = ["sh", str(context / "install.sh"), str(folder), str(interpreter)]
    made = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if made.returncode != 0:
        raise ImageError(
            f"The local environment could not be installed:\n{last_lines(made.stderr or made.stdout)}",
            hint="Free some space, or set TFBENCH_CACHE to a folder on another disk.",
        )
