"""Carry folders to and from an engine that sees other files than this host: volumes filled by archive."""

from __future__ import annotations

import os
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import IO, Any

import docker
from docker.errors import NotFound
from docker.types import Mount as ApiMount

from harness.engines import OUT_DIR, Mount
from harness.engines.calls import engine_call, remove_container
from harness.engines.recipe import UNPRIVILEGED
from harness.errors import EngineError

_AT = "/stage"
# On volumes that outlast runs, for `docker volume ls --filter label=tfbench.cache`.
CACHE: Mapping[str, str] = {"tfbench.cache": ""}
# A workload that writes huge files must not hold up the watching of its events.
_LARGEST_BYTES = 64 * 2**20
_LEAST_S = 1.0


class Stager:
    """Fill volumes on the engine with this host's folders.

    Args:
        client: the engine.
        labels: put on every volume, so that stale ones are found.
    """

    def __init__(self, client: docker.DockerClient, labels: Mapping[str, str]) -> None:
        self._client = client
        self._labels = labels
        self._volumes: dict[Path, str] = {}
        self._kept: set[str] = set()

    def read_only(self, mount: Mount, image: str) -> Mount:
        """Return `mount` with a volume in the place of its host folder; a folder is carried once.

        Raises:
            EngineError: the engine refuses or is gone, or the folder cannot be read.
        """
        if mount.host is None:
            return mount
        if mount.host not in self._volumes:
            self._volumes[mount.host] = self._fill(mount.host, image, own=False)
        return Mount(container=mount.container, host=None, volume=self._volumes[mount.host])

    def writable(self, mount: Mount, image: str) -> Mount:
        """Return `mount` with a fresh volume that holds what is in its host folder now.

        Raises:
            EngineError: the engine refuses or is gone, or the folder cannot be read.
        """
        if mount.host is None:
            return mount
        volume = self._fill(mount.host, image, own=True)
        return Mount(container=mount.container, host=None, volume=volume, read_only=False)

    def kept(self, mount: Mount, image: str) -> Mount:
        """Return `mount` with the volume that it names, made if it is not there and never removed.

        Raises:
            EngineError: the engine refuses or is gone.
        """
        if mount.volume not in self._kept:
            with engine_call(f"make the volume {mount.volume}"), tempfile.TemporaryFile() as archive:
                # Nothing but the folder itself, which a trial's user has to own.
                with tarfile.open(fileobj=archive, mode="w") as tar:
                    tar.addfile(_root())
                archive.seek(0)
                self._client.api.create_volume(name=mount.volume, labels=dict(CACHE))
                fill_volume(self._client, mount.volume, image, archive, self._labels)
            self._kept.add(mount.volume)
        return replace(mount, host=None)

    def remove_all(self) -> None:
        """Remove the volumes of read-only folders.

        Raises:
            EngineError: the engine refuses or is gone.
        """
        for volume in self._volumes.values():
            remove_volume(self._client, volume)
        self._volumes.clear()

    def _fill(self, folder: Path, image: str, own: bool) -> str:
        with engine_call(f"take a copy of {folder}"), tempfile.TemporaryFile() as archive:
            _pack(folder, archive, own)
            archive.seek(0)
            volume: str = self._client.api.create_volume(labels=dict(self._labels))["Name"]
            fill_volume(self._client, volume, image, archive, self._labels)
        return volume


class StagedOut:
    """A trial's out folder on the engine, and its copy on this host.

    Args:
        volumes: what holds it and everything else that is this trial's alone.
        out: the host's copy.
    """

    def __init__(self, volumes: tuple[str, ...], out: Path) -> None:
        self._volumes = volumes
        self._out = out
        self._due = 0.0

    def pull_if_due(self, client: docker.DockerClient, container: str) -> None:
        """Bring the host's copy up to date now and then, spending a quarter of the time at most.

        Raises:
            EngineError: the engine is gone.
        """
        begun = time.monotonic()
        if begun < self._due:
            return
        self.pull(client, container)
        now = time.monotonic()
        self._due = now + max(_LEAST_S, 3 * (now - begun))

    def pull(self, client: docker.DockerClient, container: str) -> None:
        """Bring the host's copy up to date.

        Raises:
            EngineError: the engine is gone.
        """
        with engine_call("hand over what the container wrote"), tempfile.TemporaryFile() as archive:
            try:
                chunks, _ = client.api.get_archive(container, OUT_DIR)
            except NotFound:
                return
            for chunk in chunks:
                archive.write(chunk)
            archive.seek(0)
            _unpack(archive, self._out)

    def remove(self, client: docker.DockerClient) -> None:
        """Remove what is on the engine.

        Raises:
            EngineError: the engine refuses or is gone.
        """
        for volume in self._volumes:
            remove_volume(client, volume)


def fill_volume(
    client: docker.DockerClient, volume: str, image: str, archive: IO[bytes], labels: Mapping[str, str]
) -> None:
    """Unpack an archive into a volume, through a container that is never started."""
    mount = ApiMount(target=_AT, source=volume, type="volume", no_copy=True)
    config = client.api.create_host_config(mounts=[mount], network_mode="none")
    made = client.api.create_container(image, ["/none"], host_config=config, labels=dict(labels))
    try:
        client.api.put_archive(made["Id"], "/", archive)
    finally:
        remove_container(client, made["Id"])


def remove_volume(client: docker.DockerClient, volume: str) -> None:
    """Remove a volume; no error if it is gone.

    Raises:
        EngineError: the engine refuses or is gone.
    """
    with engine_call(f"remove volume {volume}"):
        try:
            client.api.remove_volume(volume, force=True)
        except NotFound:
            return


def _pack(folder: Path, archive: IO[bytes], own: bool) -> None:
    if not folder.is_dir():
        raise EngineError(
            f"{folder} is not a folder, and only folders can be carried to a remote engine.",
            hint="Put the file into a folder of its own.",
        )

    def adopt(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = UNPRIVILEGED if own else 0
        entry.uname = entry.gname = ""
        entry.mode = 0o755 if entry.isdir() else 0o644
        return entry

    with tarfile.open(fileobj=archive, mode="w", dereference=True) as tar:
        tar.add(folder, arcname=PurePosixPath(_AT).name, filter=adopt)


def _root() -> tarfile.TarInfo:
    entry = tarfile.TarInfo(PurePosixPath(_AT).name)
    entry.type = tarfile.DIRTYPE
    entry.mode = 0o755
    entry.uid = entry.gid = UNPRIVILEGED
    return entry


def _unpack(archive: IO[bytes], out: Path) -> None:
    with tarfile.open(fileobj=archive) as tar:
        for entry, path in _entries(tar, out):
            if entry.isdir():
                path.mkdir(parents=True, exist_ok=True)
                continue
            source: Any = tar.extractfile(entry)
            _update(path, source.read())


def _entries(tar: tarfile.TarFile, out: Path) -> Iterator[tuple[tarfile.TarInfo, Path]]:
    """Yield the plain files and folders below `out`; what a workload made otherwise stays behind."""
    for entry in tar:
        parts = PurePosixPath(entry.name).parts[1:]
        plain = entry.isdir() or (entry.isreg() and entry.size <= _LARGEST_BYTES)
        if plain and parts and ".." not in parts:
            yield entry, out.joinpath(*parts)


def _update(path: Path, data: bytes) -> None:
    """Make `path` hold `data`; a file that only grew is appended to, as somebody may be reading along."""
    had = path.read_bytes() if path.exists() else None
    if had == data:
        return
    if had is not None and data.startswith(had):
        with path.open("ab") as file:
            file.write(data[len(had) :])
        return
    fresh = path.with_name(path.name + ".part")
    fresh.write_bytes(data)
    os.replace(fresh, path)  # noqa: PTH105
