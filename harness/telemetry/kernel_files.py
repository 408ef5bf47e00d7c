"""Files of the kernel's that are opened once and read again on every tick, and the source that reads several.

psutil gives the same numbers at several times the cost, since it opens every file anew and parses all of it.
"""

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
# Larger ones cost more: Python allocates the whole buffer on every read (1 MiB: 14 us, 64 KiB: 3 us).
_CHUNK = 1 << 16
_UNREADABLE = (OSError, ValueError, LookupError)


class KernelFile:
    """A file under /proc, /sys or a cgroup; reading it from the start makes the kernel write it anew.

    Raises:
        OSError: it does not exist or may not be read.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> bytes:
        """Return the whole content.

        Raises:
            OSError: the kernel object is gone.
        """
        # The kernel hands some of these files out a page at a time, however large the buffer.
        content = chunk = os.pread(self._descriptor, _CHUNK, 0)
        while chunk:
            chunk = os.pread(self._descriptor, _CHUNK, len(content))
            content += chunk
        return content

    def close(self) -> None:
        """Close it."""
        os.close(self._descriptor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One file, the metrics that come of it, and how.

    Attributes:
        missing: the reason to give where the file does not exist.
        all_at_once: the first reading has every metric that there will be, so that the others are missing.
    """

    path: Path
    metrics: tuple[str, ...]
    parse: Parse
    missing: str = ""
    all_at_once: bool = True


class FileReader:
    """Read several files into the values of one device of a source; a failing file is a gap.

    Args:
        device: as in gaps and samples.
        gap: where gaps go.
    """

    def __init__(self, device: str, gap: GapSink) -> None:
        self.device = device
        self._gap = gap
        self._open: list[tuple[Reading, KernelFile]] = []

    def open(self, readings: Sequence[Reading]) -> tuple[str, ...]:
        """Open what exists, read it once, and return the metrics that `read` can give."""
        metrics: list[str] = []
        for each in readings:
            file = None
            try:
                file = KernelFile(each.path)
                values = each.parse(file.read())
            except _UNREADABLE as error:
                if file is not None:
                    file.close()
                missing = isinstance(error, FileNotFoundError) and each.missing
                self._note(each.metrics, missing or f"{each.path} cannot be read: {error}.")
                continue
            self._open.append((each, file))
            absent = [name for name in each.metrics if each.all_at_once and name not in values]
            metrics += [name for name in each.metrics if name not in absent]
            self._note(absent, f"{each.path.name} does not have it: it is not enabled, or there is none.")
        return tuple(metrics)

    def read(self) -> Values:
        """Read every file once."""
        values: Values = {}
        for each, file in self._open:
            try:
                values |= each.parse(file.read())
            except _UNREADABLE as error:
                self._note(each.metrics, f"{each.path} cannot be read: {error}.")
        return values

    def close(self) -> None:
        """Close the files."""
        for _, file in self._open:
            file.close()
        self._open = []

    def _note(self, metrics: Sequence[str], reason: str) -> None:
        for metric in metrics:
            self._gap(self.device, metric, reason)


class FileSource:
    """A source that reads kernel files at every tick; subclasses name it and its readings.

    Args:
        root: where proc and sys are, for tests.
        now_ns: the clock.
    """

    name: str
    interval_s: float | None = None

    def __init__(self, root: Path = Path("/"), now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._root = root
        self._now_ns = now_ns
        self._readers: list[FileReader] = []

    def readings(self, target: Target, gap: GapSink) -> Mapping[str, Sequence[Reading]]:
        """Return what to read of each device."""
        raise NotImplementedError

    def start(self, target: Target, gap: GapSink) -> Mapping[str, Sequence[str]]:
        """Open the files; one that does not exist is a gap for its metrics."""
        columns = {}
        for device, readings in self.readings(target, gap).items():
            self._readers.append(FileReader(device, gap))
            columns[device] = self._readers[-1].open(readings)
        return columns

    def read(self) -> Iterable[Sample]:
        """Read every file once."""
        for reader in self._readers:
            now_ns = self._now_ns()
            if values := reader.read():
                yield Sample(t_ns=now_ns, device=reader.device, values=values)

    def stop(self) -> None:
        """Close the files."""
        for reader in self._readers:
            reader.close()
        self._readers = []


def table(content: bytes) -> dict[bytes, int]:
    """Parse lines of "key value" as cgroups write them; lines of another form are left out."""
    rows = (line.split() for line in content.splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].lstrip(b"-").isdigit()}


def pressure(path: Path, resource: str, shares: Sequence[str], missing: str) -> Reading:
    """Return the reading of a file of pressure stall information: cumulative seconds.

    Args:
        resource: "cpu", "mem" or "io", as in the metrics' names.
        shares: of "some" and "full".
    """

    def parse(content: bytes) -> Values:
        rows = {row[0].decode(): row[-1] for line in content.splitlines() if (row := line.split())}
        return {
            f"{resource}_pressure_{share}_s": int(rows[share].removeprefix(b"total=")) / 1e6
            for share in shares
            if share in rows
        }

    metrics = tuple(f"{resource}_pressure_{share}_s" for share in shares)
    return Reading(path=path, metrics=metrics, parse=parse, missing=missing)
