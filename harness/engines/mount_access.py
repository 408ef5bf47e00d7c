"""Change the owner of host folders to a container's user, and back."""

from __future__ import annotations

import stat
import subprocess
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
    """Raise EngineError if a read-only mount is not readable by others, e.g. because of a strict umask.

    Of a script's folder only itself must be: it may hold anything.
    """
    for folder, container_path in ((mount.host, mount.container) for mount in mounts if mount.read_only):
        inside = sorted(folder.iterdir()) if folder.is_dir() and container_path != FILE_DIR else ()
        for path in (folder, *inside):
            try:
                state = path.stat()
            except FileNotFoundError:  # a dangling link, such as an editor's lock
                continue
            needed = 0o005 if stat.S_ISDIR(state.st_mode) else 0o004
            if state.st_mode & needed != needed:
                # A script may be in a home folder, which should not be made readable.
                raise EngineError(
                    f"The container's user, who is not root, cannot read {path}.",
                    hint="Move the script and the files it needs to a folder that others may read."
                    if container_path == FILE_DIR
                    else f"Make it readable: chmod -R o+rX {folder}",
                )


def _chown(folder: Path, ids: tuple[int, int]) -> None:
    # Not in Python, whose recursion a container's folders may exceed. Links are not followed.
    owner = "{}:{}".format(*ids)
    command = ["chown", "--recursive", "--no-dereference", owner, "--", str(folder)]
    subprocess.run(command, stderr=subprocess.DEVNULL, check=False)
