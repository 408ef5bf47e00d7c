import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.errors import BusyError, StoreError
from harness.system.file_locks import LOCK, LOCK_ENV, default_path, filling, measuring
from harness.system.kept import replacing
from tests.fakes import RecordingProgress

HOLDER = """
import sys, time
from pathlib import Path
from harness.system.file_locks import measuring
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


@pytest.fixture
def strict_umask() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.mark.usefixtures("strict_umask")
def test_lock_file_is_writable_by_all_users(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with pytest.raises(RuntimeError), measuring(lock):
        raise RuntimeError
    assert stat.S_IMODE(lock.stat().st_mode) == 0o666
    with measuring(lock):
        pass  # released after the error


@pytest.mark.parametrize("name", ["folder", "link"])
def test_unusable_lock_file_is_an_error(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError) as raised, measuring(tmp_path / name):
        pytest.fail("acquired")
    assert LOCK_ENV in raised.value.hint
    assert ("chmod" in raised.value.hint) == (name == "link")
    assert not (tmp_path / "elsewhere").exists(), "links are not followed"


def test_default_path_does_not_depend_on_tmpdir(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/var/tmp")
    monkeypatch.delenv(LOCK_ENV, raising=False)
    assert default_path() == LOCK
    # All users may create files, only the owner may remove them.
    assert LOCK.parent.stat().st_mode & 0o1777 == 0o1777
    monkeypatch.setenv(LOCK_ENV, "/srv/lock")
    assert default_path() == Path("/srv/lock")


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
