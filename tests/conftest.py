"""What tests of several folders need."""

import gc
import os
import tempfile
from pathlib import Path

import platformdirs
import pytest
from hypothesis import settings

from harness.images.local_environment import ensure_environment
from harness.progress import Silent

ROOT = Path(__file__).resolve().parents[1]

# How long an example takes says more about what else the machine does.
settings.register_profile("tfbench", deadline=None)
settings.load_profile("tfbench")


def pytest_collection_finish() -> None:
    """Keep the tests, modules and parameters out of every later garbage collection: they stay to the end."""
    gc.freeze()


@pytest.fixture(scope="session")
def tf_python() -> Path:
    """A Python that has TensorFlow: $TFBENCH_TF_PYTHON, or the local engine's, made on first use.

    Making it is locked and atomic in itself, so that parallel test processes make it once.
    """
    own = os.environ.get("TFBENCH_TF_PYTHON")
    return Path(own) if own else environment_python("cpu")


@pytest.fixture(scope="session")
def trees_python() -> Path:
    """A Python that has XGBoost and no TensorFlow: the local engine's, made on first use."""
    return environment_python("trees-cpu")


def environment_python(target: str) -> Path:
    cache = os.environ.get("TFBENCH_CACHE") or platformdirs.user_cache_dir("tfbench")
    return Path(ensure_environment(target, ROOT, Path(cache), Silent()).reference)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own for temporary files."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder
