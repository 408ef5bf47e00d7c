"""A user's weights file, copied to a folder of its own for containers and named by its hash."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from harness.digests import file_sha256
from harness.errors import DataError, UsageError
from harness.system.file_locks import replacing
from workloads.protocol import Workload

_SUFFIXES = (".h5", ".keras")


def check_weights(path: Path | None, workloads: Sequence[Workload]) -> None:
    """Raise UsageError if Keras cannot read the file of --weights, or no chosen workload uses it."""
    if path is None:
        return
    if not path.is_file():
        raise UsageError(f"There is no file {path}.", hint="Check the path given to --weights.")
    if path.suffix not in _SUFFIXES:
        raise UsageError(
            f"{path.name} is not a weights file that Keras can read.",
            hint=f"Give a file that ends with {' or '.join(_SUFFIXES)}, e.g. made by model.save_weights.",
        )
    if not any(workload.takes_weights for workload in workloads):
        raise UsageError(
            "None of the chosen workloads uses --weights.",
            hint="Add --workload transfer-learning, or remove --weights.",
        )


def keep_weights(path: Path, cache: Path) -> tuple[Path, str]:
    """Return a folder in the cache with nothing but a copy of `path`, and the file's SHA-256.

    Raises:
        DataError: the file cannot be read, or the cache cannot be written.
    """
    try:
        sha256 = file_sha256(path)
        folder = cache / "weights" / f"sha256-{sha256}"
        if not (folder / path.name).is_file():
            with replacing(folder) as made:
                shutil.copyfile(path, made / path.name)
                # Containers run as another user.
                (made / path.name).chmod(0o644)
    except OSError as error:
        raise DataError(
            f"{path} cannot be copied to {cache}: {error.strerror}.",
            hint="Check that the file can be read, and free some space or set TFBENCH_CACHE.",
        ) from error
    return folder, sha256
