"""Hand host folders over to the container's user, and take them back with all that was written in them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from harness.engines import FILE_DIR, Mount
from harness.errors import EngineError


class TemporaryOwnership:
    """Folders that belong to `ids` until `take_back`.

    Needed only where the harness is root and the container is not: the folder changes hands, so that
    it never has to be open to all.

    Args:
        folders: writable folders; their permissions stay as they are.
        ids: user and group to hand them over to, None to do nothing.
    """

    def __init__(self, folders: Iterable[Path], ids: tuple[int, int] | None) -> None:
        self._folders = tuple(folders)
        self._ids = ids
        self._owners: dict[Path, tuple[int, int]] = {}

    def hand_over(self) -> None:
        """Hand the folders and what is in them over."""
        if self._ids is None:
            return
        for folder in self._folders:
            state = folder.stat()
            self._owners[folder] = (state.st_uid, state.st_gid)
            _own(folder, self._ids)

    def take_back(self) -> None:
        """Return everything to who had the folders; no error if it has been done."""
        for folder, owner in self._owners.items():
            if folder.exists():
                _own(folder, owner)
        self._owners.clear()


def check_readable(mounts: Iterable[Mount]) -> None:
    """Make sure that a user who is not the harness' can read the folders.

    Raises:
        EngineError: one is not readable by others, as under a strict umask.
    """
    for folder, where in ((mount.host, mount.container) for mount in mounts if mount.read_only):
        for path in (folder, *(sorted(folder.iterdir()) if folder.is_dir() else ())):
            needed = 0o005 if path.is_dir() else 0o004
            if path.stat().st_mode & needed != needed:
                # A workload file may lie in somebody's home, which is not to be opened to everybody for that.
                raise EngineError(
                    f"{path} cannot be read by the container's user, who is not root.",
                    hint="Keep the workload file, with what it needs, in a folder of its own that others may read."
                    if where == FILE_DIR
                    else f"Let others read it: chmod -R o+rX {folder}",
                )


def _own(folder: Path, ids: tuple[int, int]) -> None:
    # By descriptor and never through links: a container may have put anything there.
    for _, folders, files, handle in os.fwalk(folder, follow_symlinks=False):
        for name in (*folders, *files):
            os.chown(name, *ids, dir_fd=handle, follow_symlinks=False)
        os.fchown(handle, *ids)
