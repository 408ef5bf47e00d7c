import io
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from harness.data.datasets import ensure_data
from harness.data.published_datasets import Published, is_intact, unpack_pets
from harness.errors import DataError
from harness.progress import Silent
from harness.system.kept import file_sha256
from tests.test_procedural import JPEGS as PETS


def picture(seed: int, mode: str = "RGB", kind: str = "JPEG") -> bytes:
    random = np.random.default_rng(seed)
    image = Image.fromarray(random.integers(256, size=(24, 32, 3), dtype=np.uint8)).convert(mode)
    out = io.BytesIO()
    image.save(out, kind)
    return out.getvalue()


BROKEN = {
    "empty": b"",
    "cut off": picture(1)[:-200],
    "a PNG": picture(2, kind="PNG"),
    "no picture": b"<html>",
    "for print": picture(3, mode="CMYK"),
}


def archive(path: Path) -> Path:
    """Write an archive like Microsoft's: numbered files of two classes, the first ones broken."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("readme[1].txt", "hello")
        for offset, name in ((0, "Cat"), (1000, "Dog")):
            contents = [*BROKEN.values(), *(picture(offset + number) for number in range(40))]
            for number, content in enumerate(contents):
                out.writestr(f"PetImages/{name}/{number}.jpg", content)
            out.writestr(f"PetImages/{name}/Thumbs.db", b"x")
    return path


def available(path: Path) -> dict[str, Published]:
    checksums = {f"http://127.0.0.1:9/{path.name}": f"sha256:{file_sha256(path)}"}
    return {"pets": Published(unpack=unpack_pets, checksums=checksums)}


def test_broken_files_are_skipped_and_counted(tmp_path: Path) -> None:
    table = available(archive(tmp_path / "data/archives/pets.zip"))
    folder, info = ensure_data(PETS, tmp_path, "real", 1, Silent(), table)
    assert len(list(folder.rglob("*.jpg"))) == 80
    # The first thirty intact pictures of a class are for training, the next for testing.
    assert (folder / "train/cat/00000.jpg").read_bytes() == picture(0)
    assert (folder / "test/dog/00000.jpg").read_bytes() == picture(1030)
    assert info.kind == "real"
    assert "10 broken files of 90 skipped" in info.why
    _, again = ensure_data(PETS, tmp_path, "real", 1, Silent(), table)
    assert again == info, "the number of skipped files is cached"
    with pytest.raises(DataError, match=r"fewer than 50 .* cat"):
        ensure_data(replace(PETS, train=80), tmp_path, "real", 1, Silent(), table)


@pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
def test_broken_files_are_detected(content: bytes) -> None:
    assert not is_intact(content)
    assert is_intact(picture(5))
    assert is_intact(picture(5, mode="L"))
