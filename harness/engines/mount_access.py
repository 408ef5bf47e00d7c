"""Change the owner of host folders to a container's user, and back."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.engines import FILE_DIR, Mount
from harness.errors import EngineError


@contextmanager
def accessible(mounts: Sequence[Mount], ids: tuple[int, int] | None) -> Iterator[None]:
    """Make `ids` (uid, gid) the owner of writable mounts during the block; no change if it is None.

    Raises:
        EngineError: a read-only mount is not readable by others.
    """
    if ids is None:
        yield
        return
    check_readable(mounts)
    owners: dict[Path, tuple[int, int]] = {}
    try:
        for folder in (mount.host for mount in mounts if not mount.read_only):
            state = folder.stat()
            owners[folder] = (state.st_uid, state.st_gid)
            _chown(folder, ids)
        yield
    finally:
        for folder, owner in owners.items():
            if folder.exists():
                _chown(folder, owner)


def check_readable(mounts: Iterable[Mount]) -> None:
    """Raise EngineError if a read-only mount is not readable by others, e.g. because of a strict umask."""
    for folder, container_path in ((mount.host, mount.container) for mount in mounts if mount.read_only):
        for path in (folder, *(sorted(folder.iterdir()) if folder.is_dir() else ())):
            needed = 0o005 if path.is_dir() else 0o004
            if path.stat().st_mode & needed != needed:
                # A workload file may be in a home folder, which should not be made readable.
                raise EngineError(
                    f"The container's user, who is not root, cannot read {path}.",
                    hint="Move the workload file and the files it needs to a folder that others may read."
                    if container_path == FILE_DIR
                    else f"Make it readable: chmod -R o+rX {folder}",
                )


def _chown(folder: Path, ids: tuple[int, int]) -> None:
    # By descriptor and without following links, because a container may have created anything there.
    for _, folders, files, handle in os.fwalk(folder, follow_symlinks=False):
        for name in (*folders, *files):
            os.chown(name, *ids, dir_fd=handle, follow_symlinks=False)
        os.fchown(handle, *ids)
