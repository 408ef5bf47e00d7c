"""Datasets of JPEG files: made ones, and the real archive with its broken files."""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from harness.data.archives import Archive
from harness.data.datasets import ensure_data
from harness.data.pets import is_whole, unpack_pets
from harness.data.published import PUBLISHED, Published
from harness.digests import file_sha256
from harness.errors import DataError, UsageError
from harness.progress import Silent
from workloads.protocol import Data

PETS = Data(
    name="pets", shape=(36, 40, 3), classes=2, train=60, test=20, kind="jpeg", class_names=("cat", "dog")
)


def files(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.jpg"))


class TestMade:
    def test_is_a_tree_as_flow_from_directory_wants_it(self, tmp_path: Path) -> None:
        folder, info = ensure_data(PETS, "w", tmp_path, "auto", 1, Silent())
        assert info.kind == "procedural"
        assert len(files(folder)) == 80
        assert files(folder)[:2] == ["test/cat/00000.jpg", "test/cat/00001.jpg"]
        assert {str(Path(name).parent) for name in files(folder)} == {
            "train/cat", "train/dog", "test/cat", "test/dog"
        }  # fmt: skip
        assert info.size_bytes == sum((folder / name).stat().st_size for name in files(folder))
        assert all(is_whole((folder / name).read_bytes()) for name in files(folder))

    def test_the_same_seed_makes_the_same_bytes_and_they_are_made_once(self, tmp_path: Path) -> None:
        folder, one = ensure_data(PETS, "w", tmp_path / "a", "auto", 1, Silent())
        _, two = ensure_data(PETS, "w", tmp_path / "b", "auto", 1, Silent())
        _, other = ensure_data(PETS, "w", tmp_path / "a", "auto", 2, Silent())
        assert one.sha256 == two.sha256 != other.sha256
        stamp = (folder / files(folder)[0]).stat().st_mtime_ns
        again, _ = ensure_data(PETS, "v", tmp_path / "a", "auto", 1, Silent())
        assert again == folder
        assert (folder / files(folder)[0]).stat().st_mtime_ns == stamp

    def test_a_tree_that_lost_a_file_is_made_again(self, tmp_path: Path) -> None:
        folder, _ = ensure_data(PETS, "w", tmp_path, "auto", 1, Silent())
        (folder / "train/dog/00003.jpg").unlink()
        (folder / "train/dog/00004.jpg").write_bytes(b"")
        again, _ = ensure_data(PETS, "w", tmp_path, "auto", 1, Silent())
        assert again == folder
        assert len(files(folder)) == 80
        assert (folder / "train/dog/00004.jpg").stat().st_size > 0

    def test_pictures_have_the_published_sizes(self, tmp_path: Path) -> None:
        """Cats and dogs: on average 404 x 360 pixels and 31 KB, hardly a side beyond 500."""
        full = replace(PETS, shape=(360, 404, 3), train=150, test=50)
        folder, info = ensure_data(full, "w", tmp_path, "auto", 1, Silent())
        sizes = np.array([Image.open(folder / name).size for name in files(folder)])
        assert sizes[:, 0].mean() == pytest.approx(404, rel=0.06)
        assert sizes[:, 1].mean() == pytest.approx(360, rel=0.06)
        assert sizes.max() <= 500
        assert sizes.min() < 200
        assert info.size_bytes / 200 == pytest.approx(31_400, rel=0.1)

    def test_train_and_test_are_different_pictures(self, tmp_path: Path) -> None:
        folder, _ = ensure_data(PETS, "w", tmp_path, "auto", 1, Silent())
        contents = [(folder / name).read_bytes() for name in files(folder)]
        assert len(set(contents)) == len(contents)


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


def archive(path: Path, whole: int = 40) -> Path:
    """Write an archive like Microsoft's: numbered files of two classes, broken ones among the first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as out:
        out.writestr("readme[1].txt", "hello")
        for offset, name in ((0, "Cat"), (1000, "Dog")):
            contents = [*BROKEN.values(), *(picture(offset + number) for number in range(whole))]
            for number, content in enumerate(contents):
                out.writestr(f"PetImages/{name}/{number}.jpg", content)
            out.writestr(f"PetImages/{name}/Thumbs.db", b"x")
    return path


def available(path: Path) -> dict[str, Published]:
    file = Archive(
        file=path.name, url=f"http://127.0.0.1:9/{path.name}", checksum=f"sha256:{file_sha256(path)}"
    )
    whole = replace(PETS, train=80, test=0)
    return {"pets": replace(PUBLISHED["cats-and-dogs"], archives=(file,), whole=whole)}


class TestReal:
    def test_broken_files_are_skipped_and_counted(self, tmp_path: Path) -> None:
        table = available(archive(tmp_path / "data/archives/pets.zip"))
        folder, info = ensure_data(PETS, "w", tmp_path, "real", 1, Silent(), table)
        assert len(files(folder)) == 80
        # The first thirty whole ones of a class are for training, the next for testing.
        assert (folder / "train/cat/00000.jpg").read_bytes() == picture(0)
        assert (folder / "test/dog/00000.jpg").read_bytes() == picture(1030)
        assert info.kind == "real"
        assert "10 broken files of 90 skipped" in info.why
        _, again = ensure_data(PETS, "w", tmp_path, "real", 1, Silent(), table)
        assert again == info, "what was skipped is remembered"

    @pytest.mark.parametrize("content", BROKEN.values(), ids=BROKEN)
    def test_what_counts_as_broken(self, content: bytes) -> None:
        assert not is_whole(content)
        assert is_whole(picture(5))
        assert is_whole(picture(5, mode="L"))

    def test_too_few_whole_pictures(self, tmp_path: Path) -> None:
        path = archive(tmp_path / "pets.zip", whole=20)
        with pytest.raises(DataError, match=r"fewer than 40 .* cat"):
            unpack_pets([path], PETS, tmp_path)

    def test_a_declaration_that_wants_more_than_there_is(self, tmp_path: Path) -> None:
        table = available(archive(tmp_path / "data/archives/pets.zip"))
        with pytest.raises(UsageError, match="does not fit"):
            ensure_data(replace(PETS, train=80), "w", tmp_path, "real", 1, Silent(), table)
