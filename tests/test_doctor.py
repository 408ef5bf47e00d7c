"""What doctor says of the disks: which one has to have room for what, and what to do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.paths import Paths
from harness.progress import Silent
from harness.system.doctor_checks import State, disk_checks, examine
from tests.conftest import ROOT

FULL = Path("/proc")  # a disk without space


@pytest.mark.parametrize(
    ("cache", "images", "to_build", "needed"),
    [
        (FULL, FULL, ("cpu", "cuda"), ("5.2 GiB", "16.0 GiB")),
        (FULL, FULL, (), ("0.2 GiB",)),
        (FULL, None, ("cpu",), ("4.2 GiB",)),
        (Path.cwd(), FULL, (), (None,)),
    ],
)
def test_each_disk_is_asked_for_what_comes_there(
    cache: Path, images: Path | None, to_build: tuple[str, ...], needed: tuple[str | None, ...]
) -> None:
    checks = list(disk_checks(cache, images, to_build))
    assert [check.state for check in checks] == [State.FAIL if each else State.OK for each in needed]
    assert all(check.remedy.startswith(size or "") for check, size in zip(checks, needed, strict=True))


def test_a_cache_that_is_not_made_yet_lies_on_a_disk_too(tmp_path: Path) -> None:
    nobody = {**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    checks = examine(Paths(checkout=ROOT, cache=tmp_path / "not/there"), nobody, Silent())
    (item,) = [check for check in checks if check.name == "Disk"]
    assert item.fact.endswith(f"free under {tmp_path}/not/there")
