import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.engines import OUT_DIR, Mount
from harness.engines.container_settings import accessible
from harness.errors import BusyError, StoreError
from harness.system.shared_files import (
    LOCK,
    LOCK_ENV,
    default_path,
    filling,
    keep,
    measuring,
    read_once,
    remove_abandoned,
    replacing,
    working_folder,
)
from harness.untrusted import remove_tree
from tests.conftest import ROOT
from tests.fakes import RecordingProgress

HOLDER = """
import sys, time
from pathlib import Path
from harness.system.shared_files import measuring
with measuring(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_lock_is_released_when_holder_is_killed(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with subprocess.Popen([sys.executable, "-c", HOLDER, lock], stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(BusyError, match=f"process {holder.pid}"), measuring(lock):
            pytest.fail("acquired twice")
        holder.kill()
    with measuring(lock):
        pass


@pytest.mark.usefixtures("strict_umask")
def test_lock_file_is_writable_by_all_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = tmp_path / "lock"
    with pytest.raises(RuntimeError), measuring(lock):
        raise RuntimeError
    assert stat.S_IMODE(lock.stat().st_mode) == 0o666
    with measuring(lock):
        pass  # released after the error
    monkeypatch.setenv("TMPDIR", "/var/tmp")
    monkeypatch.delenv(LOCK_ENV, raising=False)
    assert default_path() == LOCK
    # All users may create files, only the owner may remove them.
    assert LOCK.parent.stat().st_mode & 0o1777 == 0o1777
    monkeypatch.setenv(LOCK_ENV, "/srv/lock")
    assert default_path() == Path("/srv/lock")


@pytest.mark.parametrize("name", ["folder", "link", "/proc/lock", "/proc/sys/kernel/osrelease"])
def test_unusable_lock_file_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError) as raised, measuring(tmp_path / name):
        pytest.fail("acquired")
    assert LOCK_ENV in raised.value.hint
    assert ("chmod" in raised.value.hint) == (name == "/proc/sys/kernel/osrelease")
    assert not (tmp_path / "elsewhere").exists(), "links are not followed"


def test_second_process_waits_for_the_cache(tmp_path: Path) -> None:
    progress, entered = RecordingProgress(), threading.Event()

    def second() -> None:
        with filling(tmp_path / "cache/.lock", progress):
            entered.set()

    with filling(tmp_path / "cache/.lock", progress):
        thread = threading.Thread(target=second)
        thread.start()
        assert not entered.wait(0.2)
    thread.join()
    assert entered.is_set()


@pytest.mark.usefixtures("strict_umask")
def test_folder_is_replaced_atomically(tmp_path: Path) -> None:
    folder = tmp_path / "cache/x"
    for content in ("old", "new"):
        with replacing(folder) as target:
            (target / content).touch()
    with pytest.raises(RuntimeError), replacing(folder) as target:
        (target / "partial").touch()
        raise RuntimeError
    assert [path.name for path in folder.iterdir()] == ["new"]
    assert list(folder.parent.iterdir()) == [folder]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755, "readable by a container's user"
    kept = Cached(tmp_path / "kept").folder
    files = (path for path in kept.rglob("*.*") if path.is_file())
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o644}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (kept, kept / "cat")} == {0o755}


FILES = {"x.npy": b"x" * 5_000, "cat/0.jpg": b"picture"}
WORKER = """
import sys, time
from pathlib import Path
from harness.system.shared_files import replacing
with replacing(Path(sys.argv[1])) as target:
    (target / "half").write_bytes(bytes(1000))
    print("begun", flush=True)
    time.sleep(600)
"""


class Cached:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.made = 0
        self.progress = RecordingProgress()
        self.content = self.keep()

    def keep(self):
        return keep(self.folder, self._fill, self.progress)

    def _fill(self, target: Path) -> str:
        self.made += 1
        for name, content in FILES.items():
            (target / name).parent.mkdir(exist_ok=True)
            (target / name).write_bytes(content)
        return "remark"


@pytest.fixture
def cached(tmp_path: Path) -> Cached:
    return Cached(tmp_path / "cache/data/key")


@pytest.fixture(params=[0o027, 0o077, 0o377])
def strict_umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def zero(path: Path) -> None:
    state = path.stat()
    path.write_bytes(bytes(state.st_size))
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "zeroed at the same size and time": lambda folder: zero(folder / "x.npy"),
    "truncated": lambda folder: os.truncate(folder / "x.npy", 10),
    "missing": lambda folder: (folder / "x.npy").unlink(),
    "added": lambda folder: (folder / "cat/1.jpg").touch(),
    "a pipe": lambda folder: ((folder / "x.npy").unlink(), os.mkfifo(folder / "x.npy")),
    "a link to a device": lambda folder: (
        (folder / "x.npy").unlink(),
        (folder / "x.npy").symlink_to("/dev/zero"),
    ),
    "a folder": lambda folder: ((folder / "x.npy").unlink(), (folder / "x.npy").mkdir()),
    "no record": lambda folder: (folder / ".content").unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_folder_is_made_again_and_said(cached: Cached, damage: Callable[[Path], object]) -> None:
    damage(cached.folder)
    assert cached.keep().sha256 == cached.content.sha256
    assert {name: (cached.folder / name).read_bytes() for name in FILES} == FILES
    (line,) = cached.progress.lines
    assert str(cached.folder) in line and "made again" in line
    cached.keep()
    assert (cached.made, len(cached.progress.lines)) == (2, 1)
    assert list(cached.folder.parent.iterdir()) == [cached.folder]


def test_damaged_record_or_anything_at_the_place_of_a_folder(cached: Cached, tmp_path: Path) -> None:
    for made, record in enumerate(("", "[]", "{}", '{"sha256": 1}', '{"a":' * 100_000), 2):
        (cached.folder / ".content").write_text(record)
        assert cached.keep().files.keys() == FILES.keys()
        assert cached.made == made, record[:20]
    folder = tmp_path / "key"
    for make in (folder.touch, lambda: folder.symlink_to("/nowhere"), lambda: os.mkfifo(folder)):
        make()
        Cached(folder)
        with replacing(folder):
            pass
        folder.rmdir()


def test_files_are_hashed_once_per_boot(cached: Cached) -> None:
    path = cached.folder / ".content"
    record = json.loads(path.read_text())
    record["files"]["x.npy"][2] = "0" * 64
    path.write_text(json.dumps(record))
    cached.keep()
    assert cached.made == 1, "size and time are as recorded"
    path.write_text(json.dumps({**record, "boot": "an earlier one"}))
    cached.keep()
    assert cached.made == 2
    os.utime(cached.folder / "x.npy")
    before = path.stat().st_ino
    cached.keep()
    assert (cached.made, path.stat().st_ino != before) == (2, True), "hashed, found unchanged and recorded"


def test_data_are_read_once_within_a_limit(tmp_path: Path) -> None:
    for name in ("a", "b/c", "b/d"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(bytes(3 << 20))
    (tmp_path / "gone").symlink_to("nowhere")

    def read(limit: int) -> int:
        before = int(Path("/proc/self/io").read_text().split()[1])
        read_once([tmp_path, tmp_path / "none"], limit)
        return (int(Path("/proc/self/io").read_text().split()[1]) - before) >> 20

    assert (read(1 << 40), read(4 << 20)) == (9, 4)


def test_folder_of_killed_process_is_removed_at_the_next_start(tmp_path: Path) -> None:
    folder = tmp_path / "cache/data/key"
    command = [sys.executable, "-c", WORKER, folder]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout.readline() == b"begun\n"
        remove_abandoned(tmp_path / "cache")
        assert len(list(folder.parent.iterdir())) == 1, "its process runs"
        process.kill()
    (folder.parent / ".partial-key.content").touch()
    with working_folder(folder.parent) as own:
        remove_abandoned(tmp_path / "cache")
        assert list(folder.parent.iterdir()) == [own]
    assert list(folder.parent.iterdir()) == []


def nest(folder: Path, depth: int, name: str = "d" * 100) -> None:
    """Nest folders deeper than a path can name."""
    handle = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=handle)
        inner = os.open(name, os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    os.close(os.open("file", os.O_CREAT, dir_fd=handle))
    os.close(handle)


def test_tree_of_any_depth_is_removed_and_links_are_not_followed(tmp_path: Path) -> None:
    kept = tmp_path / "kept/file"
    kept.parent.mkdir()
    kept.touch()
    folder = tmp_path / "out"
    for name in ("a", "b"):
        (folder / name).mkdir(parents=True)
        nest(folder / name, 1_500)
        (folder / name / "link").symlink_to(kept.parent)
    (folder / os.fsdecode(b"\xff")).mkdir(mode=0o000)
    remove_tree(folder)
    remove_tree(folder)
    assert sorted(tmp_path.iterdir()) == [kept.parent]
    assert kept.exists()


@pytest.mark.skipif(os.getuid() != 0, reason="only root changes owners")
def test_owner_of_deeply_nested_folders_is_changed_and_restored(tmp_path: Path) -> None:
    nest(tmp_path, 2_200, "d")
    own, mount = tmp_path.stat().st_uid, Mount(container=OUT_DIR, host=tmp_path, read_only=False)
    with accessible([mount], (10001, 10001)):
        assert (tmp_path / "d/d").stat().st_uid == 10001
    assert (tmp_path / "d/d").stat().st_uid == own
    remove_tree(tmp_path)
