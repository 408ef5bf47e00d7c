import shutil
from pathlib import Path

import pytest

from workloads.driver.storage import StorageError, in_ram


def test_insufficient_memory_is_an_error(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 43)
    with pytest.raises(StorageError, match=r"needs 8,388,608 MiB in memory.*storage=disk"):
        in_ram(str(tmp_path))


def test_copy_is_complete_and_made_once(tmp_path: Path) -> None:
    (tmp_path / "train/cat").mkdir(parents=True)
    (tmp_path / "train/cat/0.jpg").write_bytes(b"meow")
    copy = Path(in_ram(str(tmp_path)))
    assert (copy / "train/cat/0.jpg").read_bytes() == b"meow"
    assert in_ram(str(tmp_path)) == str(copy), "copied once per process"
    shutil.rmtree(copy)
