"""Wheels of a lock: fetched by pip, checked, kept; from an index, a folder, or by hand."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from harness.errors import ImageError
from harness.images.locks import Pin, fits, read_lock
from harness.images.wheels import cached_wheels, fetch_wheels
from harness.progress import Silent
from tests.fakes import RecordingProgress
from tests.wheelhouse import index, make_wheel, sha256, write_lock

pytestmark = pytest.mark.slow


@pytest.fixture
def offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that is the only thing pip finds packages in."""
    folder = tmp_path / "offered"
    folder.mkdir()
    for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def use_index(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.delenv("PIP_FIND_LINKS")
    monkeypatch.setenv("PIP_INDEX_URL", address)
    monkeypatch.setenv("PIP_RETRIES", "1")


def leftovers(cache: Path) -> list[str]:
    return [path.name for path in (cache / "wheels").glob(".partial-*")]


class TestFetch:
    def test_brings_every_wheel_of_the_lock_with_one_bar(self, tmp_path: Path, offered: Path) -> None:
        wheels = [make_wheel(offered, name) for name in ("alpha", "beta", "gamma")]
        lock = write_lock(tmp_path / "x.lock", wheels)
        progress = RecordingProgress()
        folder = fetch_wheels(lock, tmp_path / "cache", "3.13", progress)
        found = cached_wheels(lock, tmp_path / "cache", "3.13")
        assert {path.name for path in found.values()} == {wheel.name for wheel in wheels}
        assert {sha256(path) for path in found.values()} == {sha256(wheel) for wheel in wheels}
        assert all(path.is_relative_to(folder) for path in found.values())
        assert [task.total for task in progress.tasks] == [3]
        assert leftovers(tmp_path / "cache") == []

    def test_asks_nobody_once_all_are_there(self, tmp_path: Path, offered: Path) -> None:
        lock = write_lock(tmp_path / "x.lock", [wheel := make_wheel(offered, "alpha")])
        fetch_wheels(lock, tmp_path / "cache", "3.13", Silent())
        wheel.unlink()
        progress = RecordingProgress()
        fetch_wheels(lock, tmp_path / "cache", "3.13", progress)
        assert progress.tasks == []

    def test_takes_the_wheel_of_the_asked_python(self, tmp_path: Path, offered: Path) -> None:
        tags = {
            v: f"cp{v.replace('.', '')}-cp{v.replace('.', '')}-manylinux_2_17_x86_64"
            for v in ("3.11", "3.13")
        }
        lock = write_lock(
            tmp_path / "x.lock", [make_wheel(offered, "alpha", tag=tag) for tag in tags.values()]
        )
        for version, tag in tags.items():
            fetch_wheels(lock, tmp_path / "cache", version, Silent())
            (path,) = cached_wheels(lock, tmp_path / "cache", version).values()
            assert tag in path.name

    def test_a_wrong_hash_is_refused(self, tmp_path: Path, offered: Path) -> None:
        lock = write_lock(tmp_path / "x.lock", [make_wheel(offered, "alpha")])
        with (offered / "alpha-1.0-py3-none-any.whl").open("ab") as file:
            file.write(b"tampered")
        with pytest.raises(ImageError, match="wrong sha256") as caught:
            fetch_wheels(lock, tmp_path / "cache", "3.13", Silent())
        assert caught.value.hint
        assert cached_wheels(lock, tmp_path / "cache", "3.13") == {}
        assert leftovers(tmp_path / "cache") == []

    def test_no_network_says_how_to_do_without(
        self, tmp_path: Path, offered: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lock = write_lock(tmp_path / "x.lock", [make_wheel(offered, "alpha")])
        use_index(monkeypatch, "http://127.0.0.1:9/simple")
        with pytest.raises(ImageError, match="No package index answered") as caught:
            fetch_wheels(lock, tmp_path / "cache", "3.13", Silent())
        assert "copy the wheels" in caught.value.hint

    def test_an_index_without_the_package(self, tmp_path: Path, offered: Path) -> None:
        lock = write_lock(tmp_path / "x.lock", [wheel := make_wheel(offered, "alpha")])
        wheel.unlink()
        with pytest.raises(ImageError, match=r"could not download alpha 1\.0"):
            fetch_wheels(lock, tmp_path / "cache", "3.13", Silent())

    def test_a_cache_that_cannot_be_written(self, tmp_path: Path, offered: Path) -> None:
        lock = write_lock(tmp_path / "x.lock", [make_wheel(offered, "alpha")])
        (tmp_path / "cache").write_text("a file, not a folder")
        with pytest.raises(ImageError, match="cannot be written"):
            fetch_wheels(lock, tmp_path / "cache", "3.13", Silent())


class _Impatient(RecordingProgress):
    """Presses Ctrl-C as soon as something has been stored."""

    def __init__(self, cache: Path) -> None:
        super().__init__()
        self._cache = cache

    def task(self, label, total, unit=""):
        outer = super().task(label, total, unit)
        watched = self._cache / "wheels"

        class Bar:
            def __enter__(self):
                outer.__enter__()
                return self

            def __exit__(self, *info):
                return outer.__exit__(*info)

            def advance(self, amount):
                pass

            def note(self, text, *, minor=False):
                if list(watched.glob("*-*/alpha-*.whl")):
                    raise KeyboardInterrupt

        return Bar()


def test_an_interrupted_download_keeps_what_it_has(
    tmp_path: Path, offered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels = [make_wheel(offered, name) for name in ("alpha", "slow")]
    lock = write_lock(tmp_path / "x.lock", wheels)
    cache = tmp_path / "cache"
    with index(offered, held=threading.Event(), hold="slow") as address:
        use_index(monkeypatch, address)
        with pytest.raises(KeyboardInterrupt):
            fetch_wheels(lock, cache, "3.13", _Impatient(cache))
    assert [pin.name for pin in cached_wheels(lock, cache, "3.13")] == ["alpha"]
    assert leftovers(cache) == []
    (offered / wheels[0].name).unlink()
    with index(offered) as address:
        use_index_again = monkeypatch.setenv
        use_index_again("PIP_INDEX_URL", address)
        fetch_wheels(lock, cache, "3.13", Silent())
    assert len(cached_wheels(lock, cache, "3.13")) == 2


class TestByHand:
    def test_wheels_dropped_anywhere_in_the_cache_are_enough(self, tmp_path: Path, offered: Path) -> None:
        cache = tmp_path / "cache"
        lock = write_lock(tmp_path / "x.lock", [make_wheel(cache / "wheels" / "from-usb", "alpha")])
        fetch_wheels(lock, cache, "3.13", Silent())
        assert len(cached_wheels(lock, cache, "3.13")) == 1

    def test_a_wrong_one_is_left_aside_and_said(self, tmp_path: Path, offered: Path) -> None:
        cache = tmp_path / "cache"
        lock = write_lock(tmp_path / "x.lock", [make_wheel(offered, "alpha")])
        make_wheel(cache / "wheels", "alpha").write_bytes(b"not that")
        progress = RecordingProgress()
        fetch_wheels(lock, cache, "3.13", progress)
        assert ["left aside" in line for line in progress.lines] == [True]
        (path,) = cached_wheels(lock, cache, "3.13").values()
        assert sha256(path) == sha256(offered / path.name)

    def test_a_torn_copy_of_another_machines_cache_is_not_trusted(
        self, tmp_path: Path, offered: Path
    ) -> None:
        cache = tmp_path / "cache"
        lock = write_lock(tmp_path / "x.lock", [make_wheel(offered, "alpha")])
        fetch_wheels(lock, cache, "3.13", Silent())
        (path,) = cached_wheels(lock, cache, "3.13").values()
        whole = path.read_bytes()
        path.unlink()
        path.write_bytes(whole[:-10])
        assert cached_wheels(lock, cache, "3.13") == {}
        fetch_wheels(lock, cache, "3.13", Silent())
        assert path.read_bytes() == whole


class TestLocks:
    @pytest.mark.parametrize(
        "text",
        [
            "",
            "alpha==1.0\n",
            "alpha>=1.0 --hash=sha256:00\n",
            "alpha==1.0 ; python_version < '3.12' --hash=sha256:00\n",
            "-r other.txt\n",
        ],
    )
    def test_what_is_no_lock_is_refused(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "x.lock").write_text(text)
        with pytest.raises(ImageError) as caught:
            read_lock(tmp_path / "x.lock")
        assert "make lock" in caught.value.hint

    def test_a_missing_lock(self, tmp_path: Path) -> None:
        with pytest.raises(ImageError, match="cannot be read"):
            read_lock(tmp_path / "x.lock")

    def test_comments_and_names_in_any_spelling(self, tmp_path: Path) -> None:
        (tmp_path / "x.lock").write_text(
            "# made by hand\nAl_Pha==1.0 \\\n  --hash=sha256:aa \\\n  --hash=sha256:bb # why\n"
        )
        assert read_lock(tmp_path / "x.lock") == (
            Pin(name="al-pha", version="1.0", sha256=frozenset({"aa", "bb"})),
        )

    @pytest.mark.parametrize(
        ("file", "fitting"),
        [
            ("al_pha-1.0-py3-none-any.whl", True),
            ("al_pha-1.0-cp310-abi3-manylinux2014_x86_64.whl", True),
            ("al_pha-1.0-cp313-cp313-manylinux_2_28_x86_64.whl", True),
            ("al_pha-1.0-cp312-cp312-manylinux_2_28_x86_64.whl", False),
            ("al_pha-1.0-cp313-cp313-manylinux_2_28_aarch64.whl", False),
            ("al_pha-1.0-cp313-cp313-manylinux_2_34_x86_64.whl", False),
            ("al_pha-1.1-py3-none-any.whl", False),
            ("alpha-1.0-py3-none-any.whl", False),
            ("al_pha-1.0.tar.gz", False),
        ],
    )
    def test_which_files_may_be_a_pin(self, file: str, fitting: bool) -> None:
        assert fits(file, Pin(name="al-pha", version="1.0", sha256=frozenset()), "3.13") is fitting
