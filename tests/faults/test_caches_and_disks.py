"""Any damage to any file of the cache is found and mended; a full disk ends in a message."""

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.cli.rendering import charts_code
from harness.data.datasets import ensure_data
from harness.model.workload import Data
from harness.system.shared_files import file_sha256
from tests.conftest import ROOT
from tests.fakes import RecordingProgress
from tests.faults.injecting import FILE_DAMAGES, LIMIT_S, faults, time_limit
from tests.report_pages import javascript, keep_charts

pytestmark = pytest.mark.slow

PICTURES = Data(name="pictures", shape=(8, 8, 3), classes=4, train=400, test=100)
JPEGS = Data(
    name="pets", shape=(36, 40, 3), classes=2, train=20, test=10, kind="jpeg", class_names=("cat", "dog")
)
GENERATE = """
import sys
from pathlib import Path
from harness.data.datasets import ensure_data
from harness.errors import DataError
from harness.progress import Silent
from harness.model.workload import Data
data = Data(name="x", shape=(64, 64, 3), classes=4, train=1000, test=100, kind=sys.argv[2])
try:
    ensure_data(data, Path(sys.argv[1]), "procedural", 1, Silent())
except DataError as error:
    print(error)
print(*[path for path in Path(sys.argv[1]).rglob(".*") if "lock" not in path.name and path.name != ".content"])
"""


def use(cache: Path, progress: RecordingProgress) -> dict[str, str]:
    """Use everything in a cache; return the hash of each file."""
    folders = [ensure_data(data, cache, "procedural", 1, progress)[0] for data in (PICTURES, JPEGS)]
    assert charts_code(cache / "charts") == javascript()
    files = (path for folder in folders for path in folder.rglob("*.*") if path.name != ".content")
    return {str(path.relative_to(cache)): file_sha256(path) for path in files if path.is_file()}


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    home = tmp_path_factory.mktemp("home")
    keep_charts(home / "cache")
    return home / "cache", use(home / "cache", RecordingProgress())


@faults(share=0.03, default=10)
@given(chance=st.randoms(use_true_random=False))
def test_damaged_file_of_the_cache(intact, tmp_path_factory, chance: random.Random):
    pristine, expected = intact
    cache = tmp_path_factory.mktemp("damaged") / "cache"
    # Changes the times of all files, as copying a cache to another disk does.
    shutil.copytree(pristine, cache)
    files = [path for path in cache.rglob("*") if path.is_file() and path.name != ".lock"]
    file = chance.choice(files)
    before = file.read_bytes()
    chance.choice(FILE_DAMAGES)(file, chance)
    unchanged = file.is_file() and file.stat().st_size < 1 << 30 and file.read_bytes() == before
    progress = RecordingProgress()
    with time_limit():
        assert use(cache, progress) == expected
    if not unchanged and "data" in file.parts:
        assert any("made again" in line for line in progress.lines)
    progress.lines.clear()
    assert use(cache, progress) == expected
    assert progress.lines == []
    shutil.rmtree(cache.parent)


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
