"""A full disk ends in a message."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.faults.injecting import LIMIT_S

pytestmark = pytest.mark.slow

GENERATE = """
import sys
from pathlib import Path
from harness.data.datasets import ensure_data
from harness.errors import StoreError
from harness.progress import Silent
from harness.model.workload import Data
data = Data(name="x", shape=(64, 64, 3), classes=4, train=1000, test=100, kind=sys.argv[2])
try:
    ensure_data(data, Path(sys.argv[1]), "procedural", 1, Silent())
except StoreError as error:
    print(error)
print(*[path for path in Path(sys.argv[1]).rglob(".*") if "lock" not in path.name and path.name != ".content"])
"""


def on_small_disk(folder: Path, size_kib: int, *command: object) -> subprocess.CompletedProcess[str]:
    """Run a command with a file system of this size at `folder`, in a mount namespace of its own."""
    folder.mkdir()
    user = () if os.getuid() == 0 else ("--user", "--map-root-user")
    script = f'mount -t tmpfs -o size={size_kib}k tmpfs {folder} && exec "$@"'
    return subprocess.run(
        ["unshare", *user, "--mount", "sh", "-c", script, "sh", *map(str, command)], cwd=ROOT, timeout=LIMIT_S,
        capture_output=True, text=True, env={**os.environ, "TFBENCH_LOCK": f"{folder}-lock"}, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("size_kib", "kind"), [(4, "array"), (12_000, "array"), (64_000, "array"), (4, "jpeg"), (1_000, "jpeg")]
)
def test_data_on_a_small_disk(tmp_path: Path, size_kib: int, kind: str):
    """The arrays take 13.5 MB. A process that writes to a mapped file on a full disk dies of SIGBUS."""
    done = on_small_disk(
        tmp_path / "cache", size_kib, sys.executable, "-c", GENERATE, tmp_path / "cache", kind
    )
    assert (done.returncode, done.stderr) == (0, "")
    if kind == "array" or size_kib < 1_000:
        assert ("Free some space" in done.stdout) == (size_kib < 14_000), done.stdout
    assert ".partial" not in done.stdout


@pytest.mark.parametrize("size_kib", [20, 80])
def test_run_on_a_small_disk(tmp_path: Path, size_kib: int):
    run = (sys.executable, "-m", "tests.faults.faked_run", tmp_path / "disk/run", 2, 0.1)
    done = on_small_disk(tmp_path / "disk", size_kib, *run)
    assert done.returncode in (0, 5, 6), done.stderr
    assert "is not a run" not in done.stderr
    assert "Traceback" not in done.stderr
    assert ("disk is full" in done.stderr) >= (done.returncode == 6), done.stderr
