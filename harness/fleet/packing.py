"""Folders as bytes: how a trial travels from a node to the driver, and a run so far back to a node."""

from __future__ import annotations

import io
import tarfile
import zlib
from collections.abc import Iterable
from pathlib import Path

from harness.errors import StoreError

# What a node needs of a run so far to go on with it: which trials ended well, and how fast they were.
RUN_SO_FAR = ("manifest.json", "plan.json", "trials/*/trial.json", "trials/*/out/events.jsonl")


def pack(folder: Path) -> bytes:
    """Return the folder's files as a compressed archive, paths relative to it."""
    return _pack(folder, sorted(path for path in folder.rglob("*") if path.is_file()))


def pack_run_so_far(folder: Path) -> bytes:
    """Return what another process needs to resume the run in `folder`; telemetry and logs stay behind."""
    return _pack(folder, sorted(path for pattern in RUN_SO_FAR for path in folder.glob(pattern)))


def unpack(archive: bytes, folder: Path) -> None:
    """Write an archive's files below `folder`, which must not have it yet: whole or not at all.

    Raises:
        StoreError: the archive is torn or names files outside, or the disk refuses.
    """
    partial = folder.with_name(folder.name + ".partial")
    try:
        partial.mkdir(parents=True, exist_ok=True)
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as tar:
            tar.extractall(partial, filter="data")
        partial.replace(folder)
    except (OSError, EOFError, zlib.error, tarfile.TarError) as error:
        raise StoreError(
            f"Cannot write {folder}: {error}.",
            hint="Free some space on the driver's disk and continue with `tfbench fleet --resume`.",
        ) from error


def _pack(folder: Path, paths: Iterable[Path]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=6) as tar:
        for path in paths:
            tar.add(path, arcname=str(path.relative_to(folder)), recursive=False, filter=_plain)
    return buffer.getvalue()


def _plain(worker: tarfile.TarInfo) -> tarfile.TarInfo:
    """Leave owner and rights behind: the container's user means nothing on the driver."""
    worker.uid = worker.gid = 0
    worker.uname = worker.gname = ""
    worker.mode = 0o644
    return worker
