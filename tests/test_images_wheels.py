import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.errors import ImageError
from harness.images.recipes import TARGETS
from harness.images.wheels import Pin, fetch_wheels, is_wheel_of, read_lock
from harness.progress import Progress, Silent, Task
from tests.fakes import RecordingProgress
from tests.wheelhouse import ROOT, make_wheel, sha256, use_only, write_lock

pytestmark = pytest.mark.slow


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the only folder in which pip finds packages."""
    folder = tmp_path / "index"
    folder.mkdir()
    use_only(folder, monkeypatch)
    return folder


def fetch(lock: Path, cache: Path, progress: Progress | None = None) -> tuple[Path, ...]:
    try:
        return fetch_wheels(read_lock(lock.read_text()), cache, "3.13", progress or Silent())
    finally:
        assert not list(cache.glob("wheels/.partial-*"))


class TestFetch:
    def test_all_wheels_are_downloaded_with_one_progress_bar(self, tmp_path, index):
        wheels = [make_wheel(index, name) for name in ("alpha", "beta", "gamma")]
        progress = RecordingProgress()
        fetched = fetch(write_lock(tmp_path / "x.lock", wheels), tmp_path / "cache", progress)
        assert [path.name for path in fetched] == [wheel.name for wheel in wheels]
        assert [sha256(path) for path in fetched] == [sha256(wheel) for wheel in wheels]
        assert [task.total for task in progress.tasks] == [sum(wheel.stat().st_size for wheel in wheels)]

    def test_wrong_hash_is_an_error(self, tmp_path, index):
        lock = write_lock(tmp_path / "x.lock", [make_wheel(index, "alpha")])
        with (index / "alpha-1.0-py3-none-any.whl").open("ab") as file:
            file.write(b"tampered")
        with pytest.raises(ImageError, match="DO NOT MATCH THE HASHES"):
            fetch(lock, tmp_path / "cache")
        assert list((tmp_path / "cache").rglob("*.whl")) == []

    def test_unreachable_index_is_an_error(self, tmp_path, index, monkeypatch):
        lock = write_lock(tmp_path / "x.lock", [make_wheel(index, "alpha")])
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.delenv("PIP_FIND_LINKS")
        monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
        monkeypatch.setenv("PIP_RETRIES", "1")
        with pytest.raises(ImageError, match="index is not reachable") as raised:
            fetch(lock, tmp_path / "cache")
        assert "copy the wheels" in raised.value.hint

    def test_interrupted_download_keeps_finished_wheels(self, tmp_path, index):
        alpha, slow = (make_wheel(index, name) for name in ("alpha", "slow"))
        lock = write_lock(tmp_path / "x.lock", [alpha, slow])
        slow.unlink()
        os.mkfifo(slow)  # reading it blocks forever
        with pytest.raises(KeyboardInterrupt):
            fetch(lock, tmp_path / "cache", InterruptingProgress(tmp_path / "cache"))
        assert [path.name for path in (tmp_path / "cache").rglob("*.whl")] == [alpha.name]


class InterruptingProgress(RecordingProgress):
    def __init__(self, cache: Path) -> None:
        super().__init__()
        self._cache = cache

    @contextmanager
    def task(self, label: str, total: float | None) -> Iterator[Task]:
        yield self

    def advance(self, amount: float) -> None:
        if list(self._cache.glob("wheels/.partial-*/*/*.whl")):
            raise KeyboardInterrupt


class TestCache:
    def test_copied_wheels_are_used_without_download(self, tmp_path, index):
        wheel = make_wheel(tmp_path / "cache" / "wheels" / "from-usb", "alpha")
        lock = write_lock(tmp_path / "x.lock", [wheel])
        progress = RecordingProgress()
        assert fetch(lock, tmp_path / "cache", progress) == (wheel,)
        assert progress.tasks == []

    @pytest.mark.parametrize("damage", [lambda data: data[:-10], lambda data: b"X" + data[1:]])
    def test_damaged_wheel_is_downloaded_again(self, tmp_path, index, damage):
        cache = tmp_path / "cache"
        lock = write_lock(tmp_path / "x.lock", [make_wheel(index, "alpha")])
        (path,) = fetch(lock, cache)
        content = path.read_bytes()
        path.write_bytes(damage(content))
        progress = RecordingProgress()
        assert fetch(lock, cache, progress) == (path,)
        assert [str(path) in line for line in progress.lines] == [True]
        assert path.read_bytes() == content


class TestLocks:
    def test_real_locks_are_parsed_completely(self):
        for name in (*TARGETS, "installer", "cpu-aarch64", "trees-cpu-aarch64"):
            text = (ROOT / f"images/{name}.lock").read_text()
            pins = read_lock(text)
            assert len(pins) == text.count("==") > 0
            assert sum(len(pin.sha256) for pin in pins) == text.count("--hash=")
            assert all(pin.size for pin in pins)

    @pytest.mark.parametrize(
        ("file", "matches"),
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
    def test_wheel_names_of_a_pin(self, file, matches):
        pin = Pin(name="al-pha", version="1.0", sha256=frozenset())
        assert is_wheel_of(file, pin, "3.13", "x86_64") is matches
        other = file.replace("x86_64", "aarch64") if "x86_64" in file else file.replace("aarch64", "x86_64")
        assert is_wheel_of(other, pin, "3.13", "aarch64") is matches

    @pytest.mark.parametrize("name", ["cpu", "trees-cpu"])
    def test_both_architectures_have_the_same_versions(self, name):
        ours, arm = (
            {pin.name.removesuffix("-cpu"): pin.version for pin in read_lock((ROOT / file).read_text())}
            for file in (f"images/{name}.lock", f"images/{name}-aarch64.lock")
        )
        assert ours == arm
