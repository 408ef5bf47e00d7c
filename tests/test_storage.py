"""A workload's data in memory."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from workloads.storage import StorageError, in_ram


def test_what_has_no_room_is_an_error_that_says_what_to_try(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 43)
    with pytest.raises(StorageError, match=r"needs 8,388,608 MiB in memory.*storage=disk"):
        in_ram(str(tmp_path))


def test_a_copy_is_whole(tmp_path: Path) -> None:
    (tmp_path / "train/cat").mkdir(parents=True)
    (tmp_path / "train/cat/0.jpg").write_bytes(b"meow")
    copy = Path(in_ram(str(tmp_path)))
    assert (copy / "train/cat/0.jpg").read_bytes() == b"meow"
    assert in_ram(str(tmp_path)) == str(copy), "once in a process"
    shutil.rmtree(copy)
