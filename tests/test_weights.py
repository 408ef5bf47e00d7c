import hashlib
from pathlib import Path

import pytest

from harness.data.weights import check_weights, keep_weights
from harness.errors import DataError, UsageError
from harness.model.options import Options
from harness.run.catalogue import built_in
from harness.run.resolve import resolve
from tests.folders import write_files

WORKLOADS = {entry.workload.name: entry.workload for entry in built_in()}
USES_WEIGHTS, OTHER = WORKLOADS["transfer-learning"], WORKLOADS["from-scratch"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    files = {"mobilenet.weights.h5": "weights", "private": "not for containers"}
    return write_files(tmp_path / "home", files) / "mobilenet.weights.h5"


def test_file_is_copied_to_a_folder_named_by_its_hash(file: Path, tmp_path: Path) -> None:
    folder, sha256 = keep_weights(file, tmp_path / "cache")
    assert sha256 == hashlib.sha256(b"weights").hexdigest()
    assert [path.name for path in folder.iterdir()] == [file.name]
    assert (folder / file.name).stat().st_mode & 0o777 == 0o644
    assert keep_weights(file, tmp_path / "cache") == (folder, sha256)
    file.write_bytes(b"other weights")
    assert keep_weights(file, tmp_path / "cache")[0] != folder
    with pytest.raises(DataError, match="Cannot copy"):
        keep_weights(file, file)


def test_unusable_weights_are_errors(file: Path) -> None:
    check_weights(None, [OTHER])
    check_weights(file, [OTHER, USES_WEIGHTS])
    for path, workload, message in (
        (file.with_name("missing.h5"), "transfer-learning", "does not exist"),
        (file.with_name("private"), "transfer-learning", "cannot read"),
        (file, "from-scratch", "None of the selected workloads"),
    ):
        with pytest.raises(UsageError, match=message):
            resolve(Options(workloads=(workload,), device="cpu", weights=path))
