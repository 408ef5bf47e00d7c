"""What doctor says of the disks: which one has to have room for what, and what to do."""

from __future__ import annotations

import os

from harness.paths import Paths
from harness.progress import Silent
from harness.system.disk_space import Disk
from harness.system.doctor_checks import Check, State, disk_checks, examine
from tests.conftest import ROOT


def disk(folder: str, *, free_gib: float, device: int = 1) -> Disk:
    """Describe a disk."""
    return Disk(folder=folder, device=device, free_bytes=int(free_gib * 2**30))


def checks_of(cache: float, images: float | None, *to_build: str, engine: bool = True) -> list[Check]:
    """Ask about a cache with so many GiB free, and another disk for images."""
    place = None if images is None else disk("/images", device=2, free_gib=images)
    return list(disk_checks(disk("/cache", free_gib=cache), place, to_build, engine=engine))


def test_each_disk_is_asked_for_what_comes_there() -> None:
    first, second = checks_of(6, 17, "cpu", "cuda")
    assert (first.state, first.fact, first.remedy) == (State.OK, "6.0 GiB free under /cache", "")
    assert (second.state, second.fact, second.remedy) == (State.OK, "17.0 GiB free under /images", "")


def test_a_full_disk_fails_with_what_is_needed_for_what() -> None:
    cache, images = checks_of(4, 12, "cpu", "cuda")
    assert (cache.state, images.state) == (State.FAIL, State.FAIL)
    assert "16.0 GiB" in images.remedy and "cpu, cuda" in images.remedy
    assert "data-root" in images.remedy
    assert "TFBENCH_CACHE" in cache.remedy


def test_what_is_built_needs_no_room() -> None:
    assert [item.state for item in checks_of(1, 1)] == [State.OK]
    (full,) = checks_of(0.1, 1)
    assert full.state is State.FAIL
    assert full.remedy.startswith("0.2 GiB ")


def test_one_disk_for_both_is_named_once_and_has_room_for_both() -> None:
    shared = disk("/cache", free_gib=4), disk("/images", free_gib=4)
    (one,) = disk_checks(*shared, ("cpu",), engine=True)
    assert one.state is State.FAIL
    assert one.fact == "4.0 GiB free under /cache and /images"
    assert one.remedy.startswith("4.2 GiB ")


def test_without_an_engine_the_cache_takes_all_and_one_elsewhere_is_not_asked() -> None:
    (local,) = checks_of(3, None, "cpu", engine=False)
    assert local.state is State.FAIL
    assert local.remedy.startswith("3.2 GiB ")
    (remote,) = checks_of(6, None, "cpu")
    assert (remote.state, remote.fact) == (State.OK, "6.0 GiB free under /cache")


def test_a_cache_that_is_not_made_yet_lies_on_a_disk_too(tmp_path) -> None:
    nobody = {**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    checks = examine(Paths(checkout=ROOT, cache=tmp_path / "not/there"), nobody, Silent())
    (one,) = [check for check in checks if check.name == "Disk"]
    assert one.fact.endswith(f"free under {tmp_path}/not/there")
