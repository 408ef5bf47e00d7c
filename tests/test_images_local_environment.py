from pathlib import Path

import pytest

from harness.errors import ImageError
from harness.images.local_environment import ensure_environment, library_variables
from harness.progress import Silent
from tests.commands import output_of
from tests.fakes import RecordingProgress
from tests.wheelhouse import make_checkout, make_wheel, use_only, write_lock

pytestmark = pytest.mark.slow


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    wheels = [make_wheel(tmp_path / "cache" / "wheels", name) for name in ("alpha", "beta")]
    return make_checkout(tmp_path / "checkout", wheels)


def test_environment_has_locked_packages_and_is_created_once(tmp_path, checkout):
    progress = RecordingProgress()
    info = ensure_environment("cpu", checkout, tmp_path / "cache", progress)
    assert output_of(info.reference, "-c", "import alpha, beta; print(alpha.VERSION)") == "1.0\n"
    assert progress.tasks
    progress.tasks.clear()
    assert ensure_environment("cpu", checkout, tmp_path / "cache", progress) == info
    assert progress.tasks == []
    (folder,) = (tmp_path / "cache/environments").iterdir()
    assert folder.name == Path(info.reference).parents[1].name


def test_environment_is_recreated_for_new_lock_or_missing_interpreter(tmp_path, checkout):
    before = ensure_environment("cpu", checkout, tmp_path / "cache", Silent())
    write_lock(checkout / "images/cpu.lock", [make_wheel(tmp_path / "cache" / "wheels", "alpha", "2.0")])
    after = ensure_environment("cpu", checkout, tmp_path / "cache", Silent())
    assert after.reference != before.reference
    assert after.digest != before.digest
    assert Path(before.reference).exists()
    python = Path(after.reference)
    for name in ("python", "python3"):
        (python.parent / name).unlink()
        (python.parent / name).symlink_to("/nowhere/python")
    assert ensure_environment("cpu", checkout, tmp_path / "cache", Silent()) == after
    assert python.exists()


def test_failure_leaves_no_partial_environment(tmp_path, checkout, monkeypatch):
    use_only(tmp_path, monkeypatch)
    write_lock(checkout / "images/cpu.lock", [make_wheel(tmp_path / "unreachable", "gamma")])
    with pytest.raises(ImageError, match="gamma"):
        ensure_environment("cpu", checkout, tmp_path / "cache", Silent())
    assert not list((tmp_path / "cache").glob("environments/*"))


def test_cuda_libraries_are_added_to_library_path(tmp_path, monkeypatch):
    monkeypatch.setenv("LD_LIBRARY_PATH", "/mine")
    assert library_variables(tmp_path / "bin/python") == {}
    nvidia = tmp_path / "lib/python3.13/site-packages/nvidia"
    for package in ("cublas", "cusolver"):
        (nvidia / package / "lib").mkdir(parents=True)
    variables = library_variables(tmp_path / "bin/python")
    assert variables["LD_LIBRARY_PATH"] == f"{nvidia}/cublas/lib:{nvidia}/cusolver/lib:/mine"
    assert variables["XLA_FLAGS"] == f"--xla_gpu_cuda_data_dir={nvidia}/cuda_nvcc"
    assert variables["PATH"].startswith(f"{nvidia}/cuda_nvcc/bin:")
