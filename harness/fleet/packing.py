"""Folders as bytes: how a trial travels from a node to the driver, and a run so far back to a node."""

from __future__ import annotations

import io
import shutil
import tarfile
from collections.abc import Iterable
from pathlib import Path

from harness.run.store import on_disk

# What a node needs of a run so far to go on with it: which trials ended well, and how fast they were.
RUN_SO_FAR = ("manifest.json", "plan.json", "trials/*/trial.json", "trials/*/out/events.jsonl")


def pack(folder: Path) -> bytes:
    """Return the folder's files as a compressed archive, paths relative to it."""
    return _pack(folder, (path for path in folder.rglob("*") if path.is_file()))


def pack_run_so_far(folder: Path) -> bytes:
    """Return what another process needs to resume the run in `folder`; telemetry and logs stay behind."""
    return _pack(folder, (path for pattern in RUN_SO_FAR for path in folder.glob(pattern)))


def unpack(archive: bytes, folder: Path) -> None:
    """Write an archive's files below `folder`, whole or not at all; what was in it is replaced.

    Raises:
        StoreError: the disk refuses.
        tarfile.FilterError: the archive names files outside.
    """
    partial = folder.with_name(folder.name + ".partial")
    with on_disk(folder):
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
            tar.extractall(partial, filter="data")
        shutil.rmtree(folder, ignore_errors=True)
        partial.replace(folder)


def _pack(folder: Path, paths: Iterable[Path]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=6) as tar:
        for path in sorted(paths):
            tar.add(path, arcname=str(path.relative_to(folder)), recursive=False, filter=_plain)
    return buffer.getvalue()


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Leave owner and rights behind: the container's user means nothing on the driver."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o644
    return member
