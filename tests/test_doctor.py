"""What doctor says of the disks: which one has to have room for what, and what to do."""

from __future__ import annotations

import os

import pytest

from harness.paths import Paths
from harness.progress import Silent
from harness.system.disk_space import Disk
from harness.system.doctor_checks import State, disk_checks, examine
from tests.conftest import ROOT


def disk(folder: str, free_gib: float, device: int) -> Disk:
    return Disk(folder=folder, device=device, free_bytes=int(free_gib * 2**30))


@pytest.mark.parametrize(
    ("cache", "images", "to_build", "needed"),
    [
        (6, 17, ("cpu", "cuda"), (None, None)),
        (4, 12, ("cpu", "cuda"), ("5.2 GiB", "16.0 GiB")),
        (1, 1, (), (None,)),
        (0.1, 1, (), ("0.2 GiB",)),
        # Without an engine the environments lie in the cache; one whose disk cannot be asked is left out.
        (3, None, ("cpu",), ("3.2 GiB",)),
    ],
)
def test_each_disk_is_asked_for_what_comes_there(
    cache: float, images: float | None, to_build: tuple[str, ...], needed: tuple[str | None, ...]
) -> None:
    other = None if images is None else disk("/images", images, 2)
    checks = disk_checks(disk("/cache", cache, 1), other, to_build, engine=other is not None)
    assert [check.state for check in checks] == [State.FAIL if each else State.OK for each in needed]
    for check, size, folder, remedy in zip(
        checks, needed, ("/cache", "/images"), ("TFBENCH_CACHE", "data-root"), strict=False
    ):
        assert check.fact.endswith(f"GiB free under {folder}")
        assert check.remedy.startswith(size or "")
        assert (remedy in check.remedy) == bool(size)


def test_one_disk_for_both_is_named_once_and_has_room_for_both() -> None:
    (item,) = disk_checks(disk("/cache", 4, 1), disk("/images", 4, 1), ("cpu",), engine=True)
    assert (item.state, item.fact) == (State.FAIL, "4.0 GiB free under /cache and /images")
    assert item.remedy.startswith("4.2 GiB ")


def test_a_cache_that_is_not_made_yet_lies_on_a_disk_too(tmp_path) -> None:
    nobody = {**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    checks = examine(Paths(checkout=ROOT, cache=tmp_path / "not/there"), nobody, Silent())
    (item,) = [check for check in checks if check.name == "Disk"]
    assert item.fact.endswith(f"free under {tmp_path}/not/there")
