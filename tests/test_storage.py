"""Data in memory: where there is room for it, and what is said where there is none."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from workloads.storage import StorageError, in_ram, place_for

MOUNTS = "/dev/sda / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\nshm /dev/shm tmpfs rw 0 0\n"
FREE = {"/tmp": 2000, "/dev/shm": 500, "/var/tmp": 9000}


def test_the_first_place_in_memory_with_room() -> None:
    assert place_for(400, ("/dev/shm", "/tmp"), MOUNTS, FREE.__getitem__) == "/dev/shm"
    assert place_for(600, ("/dev/shm", "/tmp"), MOUNTS, FREE.__getitem__) == "/tmp"
    assert place_for(600, ("/tmp/home/x",), MOUNTS, lambda _: 700) == "/tmp/home/x"


def test_a_disk_is_no_memory_and_the_error_says_what_each_place_has() -> None:
    with pytest.raises(StorageError, match="/var/tmp is on a disk, /tmp has 0 MiB free") as raised:
        place_for(3000, ("/var/tmp", "/tmp"), MOUNTS, FREE.__getitem__)
    assert "storage=disk" in str(raised.value)


def test_a_copy_is_whole(tmp_path: Path) -> None:
    (tmp_path / "train/cat").mkdir(parents=True)
    (tmp_path / "train/cat/0.jpg").write_bytes(b"meow")
    copy = Path(in_ram(str(tmp_path)))
    assert (copy / "train/cat/0.jpg").read_bytes() == b"meow"
    assert in_ram(str(tmp_path)) == str(copy), "once in a process"
    shutil.rmtree(copy)
