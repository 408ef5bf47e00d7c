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
def test_space_needed_on_each_disk(cache, images, to_build, needed):
    checks = list(disk_checks(cache, images, to_build))
    assert [check.state for check in checks] == [State.FAIL if size else State.OK for size in needed]
    assert all(check.remedy.startswith(size or "") for check, size in zip(checks, needed, strict=True))


def test_free_space_with_missing_cache_folder(tmp_path):
    no_engine = {**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/none.sock"}
    checks = examine(Paths(checkout=ROOT, cache=tmp_path / "not/there"), no_engine, Silent())
    (item,) = [check for check in checks if check.name == "Disk"]
    assert item.fact.endswith(f"free under {tmp_path}/not/there")
