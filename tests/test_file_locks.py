"""One measurement at a time on a machine, and turns at filling the cache."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.errors import BusyError, StoreError
from harness.system.file_locks import LOCK, LOCK_ENV, default_path, filling, measuring, replacing
from tests.fakes import RecordingProgress

HOLDER = """
import sys, time
from pathlib import Path
from harness.system.file_locks import measuring
with measuring(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_the_kernel_frees_it_when_its_holder_is_killed(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with subprocess.Popen([sys.executable, "-c", HOLDER, lock], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(BusyError, match=f"process {holder.pid}"), measuring(lock):
            pytest.fail("two runs measured at once")
        holder.kill()
    with measuring(lock):
        pass


@pytest.fixture
def strict_umask() -> Iterator[None]:
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.mark.usefixtures("strict_umask")
def test_any_user_may_take_it_whatever_the_umask_of_the_first(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with pytest.raises(RuntimeError), measuring(lock):
        raise RuntimeError
    assert stat.S_IMODE(lock.stat().st_mode) == 0o666
    with measuring(lock):
        pass  # it is free again when a run fails


@pytest.mark.parametrize("name", ["folder", "link"])
def test_a_lock_file_that_cannot_be_opened(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError) as caught, measuring(tmp_path / name):
        pytest.fail("what cannot be opened cannot be held")
    assert LOCK_ENV in caught.value.hint
    assert not (tmp_path / "elsewhere").exists(), "a link that somebody planted is not followed"


def test_it_is_one_for_the_machine_whatever_the_shell_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/var/tmp")
    monkeypatch.delenv(LOCK_ENV, raising=False)
    assert default_path() == LOCK
    assert LOCK.parent.stat().st_mode & 0o1777 == 0o1777, "any user may make a file there, and none remove it"
    monkeypatch.setenv(LOCK_ENV, "/srv/lock")
    assert default_path() == Path("/srv/lock")


def test_who_fills_the_cache_second_waits_and_says_so(tmp_path: Path) -> None:
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
def test_a_folder_takes_anothers_place_whole_or_not_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "cache/x"
    for content in ("old", "new"):
        with replacing(folder) as made:
            (made / content).touch()
    with pytest.raises(RuntimeError), replacing(folder) as made:
        (made / "torn").touch()
        raise RuntimeError
    assert [path.name for path in folder.iterdir()] == ["new"]
    assert list(folder.parent.iterdir()) == [folder]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755, "a container's user may look into it"
