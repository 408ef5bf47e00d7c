"""Kernel files that are opened once and read at every tick, at a fraction of psutil's cost."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.telemetry import GapSink, Sample, Target

Values = dict[str, float]
# Content -> metrics.
Parse = Callable[[bytes], Mapping[str, float]]
# Python allocates this buffer for every read (1 MiB: 14 us, 64 KiB: 3 us).
_CHUNK = 1 << 16
_UNREADABLE = (OSError, ValueError, LookupError)


class KernelFile:
    """An open file of /proc, /sys or a cgroup; the kernel regenerates the content for each read."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> bytes:
        """Return the whole content; raise OSError if the kernel object is gone."""
        # The kernel returns some files page by page, even if the buffer is larger.
        content = chunk = os.pread(self._descriptor, _CHUNK, 0)
        while chunk:
            chunk = os.pread(self._descriptor, _CHUNK, len(content))
            content += chunk
        return content

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileReading:
    """A file, its metrics, and how to parse them.

    Attributes:
        missing: gap reason if the file does not exist.
        first_is_complete: metrics absent from the first reading are not available.
    """

    path: Path
    metrics: tuple[str, ...]
    parse: Parse
    missing: str = ""
    first_is_complete: bool = True


class FileSource:
    """A source that reads kernel files below `root`; subclasses define name and readings."""

    name: str
    interval_s: float | None = None

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._gap: GapSink = lambda *_: None
        self._files: dict[str, list[tuple[FileReading, KernelFile]]] = {}

    def readings(self, target: Target, gap: GapSink) -> Mapping[str, Sequence[FileReading]]:
        """Return the files to read for each device."""
        raise NotImplementedError

    def start(self, target: Target, gap: GapSink) -> Mapping[str, Sequence[str]]:
        """Open the files and read each once; a missing file is reported as a gap."""
        self._gap = gap
        columns = {}
        for device, readings in self.readings(target, gap).items():
            self._files[device] = []
            columns[device] = tuple(metric for reading in readings for metric in self._open(device, reading))
        return columns

    def read(self) -> Iterable[Sample]:
        """Read each file; an unreadable file is reported as a gap."""
        for device, files in self._files.items():
            now_ns, values = time.monotonic_ns(), Values()
            for reading, file in files:
                try:
                    values |= reading.parse(file.read())
                except _UNREADABLE as error:
                    self._report(device, reading.metrics, f"{reading.path} cannot be read: {error}.")
            if values:
                yield Sample(t_ns=now_ns, device=device, values=values)

    def stop(self) -> None:
        """Close the files."""
        for files in self._files.values():
            for _, file in files:
                file.close()
        self._files = {}

    def _open(self, device: str, reading: FileReading) -> Sequence[str]:
        """Open a file and return its available metrics."""
        file = None
        try:
            file = KernelFile(reading.path)
            values = reading.parse(file.read())
        except _UNREADABLE as error:
            if file is not None:
                file.close()
            missing = isinstance(error, FileNotFoundError) and reading.missing
            self._report(device, reading.metrics, missing or f"{reading.path} cannot be read: {error}.")
            return ()
        self._files[device].append((reading, file))
        absent = [name for name in reading.metrics if reading.first_is_complete and name not in values]
        self._report(
            device, absent, f"{reading.path.name} does not contain it: not enabled or not present here."
        )
        return [name for name in reading.metrics if name not in absent]

    def _report(self, device: str, metrics: Sequence[str], reason: str) -> None:
        for metric in metrics:
            self._gap(device, metric, reason)


def table(content: bytes) -> dict[bytes, int]:
    """Parse a cgroup file's lines of "key value"; ignore other lines."""
    rows = (line.split() for line in content.splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].lstrip(b"-").isdigit()}


def pressure(path: Path, resource: str, shares: Sequence[str], missing: str) -> FileReading:
    """Return the reading of a pressure stall information file, in cumulative seconds.

    Args:
        resource: "cpu", "mem" or "io", as in the metric names.
        shares: "some", "full" or both.
    """

    def parse(content: bytes) -> Values:
        rows = {row[0].decode(): row[-1] for line in content.splitlines() if (row := line.split())}
        return {
            f"{resource}_pressure_{share}_s": int(rows[share].removeprefix(b"total=")) / 1e6
            for share in shares
            if share in rows
        }

    metrics = tuple(f"{resource}_pressure_{share}_s" for share in shares)
    return FileReading(path=path, metrics=metrics, parse=parse, missing=missing)
