"""Tiny wheels, locks and checkouts for image tests."""

import hashlib
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from uv import find_uv_bin

from harness.images.recipes import TARGETS
from tests.conftest import ROOT

# What pip would build, and the file that tells that it did.
SOURCE_TREE = {
    "pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']",
    "backend.py": "open('ran', 'w')",
}
RAN = "ran"


def use_only(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    for name, value in (("CONFIG_FILE", "/dev/null"), ("NO_INDEX", "1"), ("FIND_LINKS", str(folder))):
        monkeypatch.setenv(f"PIP_{name}", value)


def make_wheel(folder: Path, name: str, version: str = "1.0") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": f"VERSION = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{file},,\n" for file in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for file, content in files.items():
            archive.writestr(zipfile.ZipInfo(file), content)
    return path


def make_installer(folder: Path) -> Path:
    """Write the wheel of uv that images/install.sh needs, with this environment's uv."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "uv-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(zipfile.ZipInfo("uv-1.0.data/scripts/uv"), Path(find_uv_bin()).read_bytes())
    return path


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_lock(path: Path, wheels: Sequence[Path]) -> Path:
    """Write a lock that pins these wheels, in the format of images/lock.sh."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pins, sizes = [], []
    for wheel in wheels:
        name, version, *_ = wheel.name.split("-")
        pins.append(f"{name}=={version} \\\n    --hash=sha256:{sha256(wheel)}\n")
        sizes.append(f"# {name}: {wheel.stat().st_size} bytes\n")
    path.write_text("".join(pins + sizes))
    return path


def make_checkout(folder: Path, wheels: Sequence[Path]) -> Path:
    """Write a checkout with the real image recipes and tiny locks; put the installer next to the first wheel."""
    images = folder / "images"
    images.mkdir(parents=True)
    for path in (*ROOT.glob("images/*.sh"), ROOT / "images/Dockerfile", ROOT / "images/base.lock"):
        shutil.copy(path, images)
    shutil.copy(ROOT / "docker-compose.yml", folder)
    for target in TARGETS:
        write_lock(images / f"{target}.lock", wheels)
    write_lock(images / "installer.lock", [make_installer(wheels[0].parent)])
    return folder
