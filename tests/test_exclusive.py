"""One run at a time on a machine."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from harness.errors import BusyError, StoreError
from harness.exclusive import default_path, measuring


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
        "import sys, time; from pathlib import Path; from harness.exclusive import measuring\n"
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


def test_it_lies_where_all_runs_of_the_machine_look() -> None:
    assert default_path() == default_path()
    assert default_path().parent.is_dir()
