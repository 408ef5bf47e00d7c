"""A user's weights file, copied to a separate folder for containers and identified by its hash."""

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
    """Raise UsageError if Keras cannot read the --weights file, or no selected workload uses it."""
    if path is None:
        return
    if not path.is_file():
        raise UsageError(
            f"The weights file {path} does not exist.", hint="Check the path given to --weights."
        )
    if path.suffix not in _SUFFIXES:
        raise UsageError(
            f"Keras cannot read {path.name} as weights.",
            hint=f"Use a file that ends in {' or '.join(_SUFFIXES)}, e.g. from model.save_weights.",
        )
    if not any(workload.takes_weights for workload in workloads):
        raise UsageError(
            "None of the selected workloads uses --weights.",
            hint="Add --workload transfer-learning, or remove --weights.",
        )


def keep_weights(path: Path, cache: Path) -> tuple[Path, str]:
    """Copy the file to its own folder in the cache; return the folder and the file's SHA-256.

    Raises:
        DataError: the file cannot be read, or the cache cannot be written.
    """
    try:
        sha256 = file_sha256(path)
        folder = cache / "weights" / f"sha256-{sha256}"
        if not (folder / path.name).is_file():
            with replacing(folder) as target:
                shutil.copyfile(path, target / path.name)
                # Containers run as a different user.
                (target / path.name).chmod(0o644)
    except OSError as error:
        raise DataError(
            f"Cannot copy {path} to {cache}: {error.strerror}.",
            hint="Check that the file is readable, and free some space or set TFBENCH_CACHE.",
        ) from error
    return folder, sha256
