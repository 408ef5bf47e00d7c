"""Give host folders to a container's user, and take them back with all that was written there."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from harness.engines import FILE_DIR, Mount
from harness.errors import EngineError


@contextmanager
def accessible(mounts: Sequence[Mount], ids: tuple[int, int] | None) -> Iterator[None]:
    """Give writable mounts to `ids` (user, group) during the block; no change if it is None.

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
            _own(folder, ids)
        yield
    finally:
        for folder, owner in owners.items():
            if folder.exists():
                _own(folder, owner)


def check_readable(mounts: Iterable[Mount]) -> None:
    """Raise EngineError if a read-only mount is not readable by others, as under a strict umask."""
    for folder, where in ((mount.host, mount.container) for mount in mounts if mount.read_only):
        for path in (folder, *(sorted(folder.iterdir()) if folder.is_dir() else ())):
            needed = 0o005 if path.is_dir() else 0o004
            if path.stat().st_mode & needed != needed:
                # A workload file may be in a home folder, which should not be opened to others.
                raise EngineError(
                    f"{path} cannot be read by the container's user, who is not root.",
                    hint="Keep the workload file, with what it needs, in a folder of its own that others may read."
                    if where == FILE_DIR
                    else f"Let others read it: chmod -R o+rX {folder}",
                )


def _own(folder: Path, ids: tuple[int, int]) -> None:
    # By descriptor and not through links: a container may have put anything there.
    for _, folders, files, handle in os.fwalk(folder, follow_symlinks=False):
        for name in (*folders, *files):
            os.chown(name, *ids, dir_fd=handle, follow_symlinks=False)
        os.fchown(handle, *ids)
