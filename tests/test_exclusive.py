"""One run at a time on a machine."""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.errors import BusyError, StoreError
from harness.system.exclusive import LOCK, LOCK_ENV, default_path, measuring

ROOT = Path(__file__).resolve().parents[1]


def test_a_second_run_is_told_who_holds_the_machine(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with measuring("run-1", lock):
        with pytest.raises(BusyError) as caught, measuring("run-2", lock):
            pytest.fail("two runs measured at once")
        assert f"process {os.getpid()}, run run-1" in caught.value.message
    with measuring("run-2", lock):
        assert "run-2" in lock.read_text(encoding="utf-8")


def test_it_is_free_again_when_a_run_fails(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with pytest.raises(RuntimeError), measuring("run-1", lock):
        raise RuntimeError
    with measuring("run-2", lock):
        pass


def test_the_kernel_frees_it_when_its_holder_is_killed(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    code = (
        "import sys, time; from pathlib import Path; from harness.system.exclusive import measuring\n"
        "with measuring('killed', Path(sys.argv[1])):\n print('held', flush=True); time.sleep(600)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(lock)], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(BusyError, match=f"process {holder.pid}, run killed"), measuring("x", lock):
            pass
        holder.kill()
    with measuring("next", lock):
        pass


def test_any_user_may_take_it_whatever_the_umask_of_the_first(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    before = os.umask(0o077)
    try:
        with measuring("run-1", lock):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE(lock.stat().st_mode) == 0o666


def test_a_lock_file_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="lock file"), measuring("run", tmp_path / "none" / "lock"):
        pass
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError), measuring("run", tmp_path / "link"):
        pass
    assert not (tmp_path / "elsewhere").exists(), "a link that somebody planted is not followed"


@contextmanager
def open_folder() -> Iterator[Path]:
    """Give a folder that every user may enter, which pytest's own are not."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o1777)
        yield Path(folder)


@contextmanager
def another_user() -> Iterator[None]:
    """Be somebody whom a file's mode holds back: root is not."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


def test_a_file_that_another_user_may_only_read_is_lock_enough() -> None:
    with open_folder() as folder:
        lock = folder / "lock"
        with measuring("run-1", lock):
            lock.chmod(0o444)
            with another_user(), pytest.raises(BusyError, match="run run-1"), measuring("run-2", lock):
                pytest.fail("two runs measured at once")
        with another_user(), measuring("run-2", lock):
            with pytest.raises(BusyError) as caught, measuring("run-3", lock):
                pytest.fail("two runs measured at once")
            assert "run-1" not in caught.value.message, "that run has ended"


def test_a_file_that_another_user_keeps_to_himself() -> None:
    with open_folder() as folder:
        lock = folder / "lock"
        lock.touch(mode=0o000)
        with another_user(), pytest.raises(StoreError) as caught, measuring("run", lock):
            pytest.fail("what cannot be opened cannot be held")
        assert f"of user {pwd.getpwuid(os.getuid()).pw_name}: Permission denied" in caught.value.message
        for remedy in (f"chmod 666 {lock}", "TFBENCH_LOCK"):
            assert remedy in caught.value.hint


def test_what_somebody_planted_is_not_written_to(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("precious", encoding="utf-8")
    (tmp_path / "name").hardlink_to(mine)
    os.mkfifo(tmp_path / "pipe")
    for name in ("name", "pipe"):
        with pytest.raises(StoreError, match="not a lock file"), measuring("run", tmp_path / name):
            pytest.fail("that is no lock")
    assert mine.read_text(encoding="utf-8") == "precious"


def test_it_is_one_for_the_machine_whatever_the_shell_says(tmp_path: Path) -> None:
    code = "from harness.system.exclusive import default_path; print(default_path())"
    told = {
        folder: subprocess.run(
            [sys.executable, "-c", code],
            env={"TMPDIR": str(folder), "PYTHONPATH": str(ROOT)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        for folder in (tmp_path, Path("/var/tmp"))
    }
    assert set(told.values()) == {str(LOCK)}
    assert LOCK.parent.stat().st_mode & 0o1777 == 0o1777, "any user may make a file there, and none remove it"
    assert default_path({LOCK_ENV: "/srv/lock"}) == Path("/srv/lock")
