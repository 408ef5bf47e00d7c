"""Telemetry on disk: one append-only CSV for each source and device, named SOURCE-DEVICE.csv.

The header is t_ns (CLOCK_MONOTONIC, nanoseconds) and the metrics' names; an empty cell is a gap.

    pandas.read_csv("nvml-gpu0.csv")
    duckdb.sql("from 'nvml-gpu0.csv'")
"""

from __future__ import annotations

import errno
import io
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from harness.errors import StoreError
from harness.model.run import Sample, Series
from harness.untrusted import printable, read_file

_FLUSH_NS = 500_000_000
_TIME = "t_ns"


class TelemetryWriter:
    """Append samples to the files of `folder`; a harness that is killed loses less than a second of them.

    One thread may write one source while others write others.

    Args:
        folder: is made when it is not there; files in it are appended to.
        now_ns: the clock.
    """

    def __init__(self, folder: Path, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._folder = folder
        self._now_ns = now_ns
        self._files: dict[tuple[str, str], _File] = {}

    def __enter__(self) -> TelemetryWriter:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _store_error(self._folder, error) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        failed: OSError | None = None
        for file in self._files.values():
            try:
                file.close()
            except OSError as error:
                failed = error
        self._files = {}
        if failed and value is None:
            raise _store_error(self._folder, failed) from failed

    def begin(self, source: str, columns: Mapping[str, Sequence[str]]) -> None:
        """Start the files of a source: device -> metrics.

        Raises:
            StoreError: a file cannot be written.
        """
        for device, metrics in columns.items():
            if metrics:
                path = self._folder / f"{source}-{device}.csv"
                try:
                    self._files[source, device] = _File(path, tuple(metrics), self._now_ns())
                except OSError as error:
                    raise _store_error(path, error) from error

    def write(self, samples: Iterable[Sample]) -> None:
        """Append samples of sources and devices that have begun.

        Raises:
            StoreError: a file cannot be written.
            ValueError: a source gave a device or metric that it had not declared.
        """
        now_ns = self._now_ns()
        for sample in samples:
            file = self._files.get((sample.source, sample.device))
            if file is None:
                raise ValueError(f"source {sample.source!r} had not declared device {sample.device!r}")
            try:
                file.write(sample, now_ns)
            except OSError as error:
                raise _store_error(self._folder, error) from error


class _File:
    def __init__(self, path: Path, metrics: tuple[str, ...], now_ns: int) -> None:
        self._metrics = metrics
        self._known = frozenset(metrics)
        self._lines: list[str] = []
        self._flushed_ns = now_ns
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        if os.fstat(self._descriptor).st_size == 0:
            self._lines.append(",".join((_TIME, *metrics)))
            self.flush()

    def write(self, sample: Sample, now_ns: int) -> None:
        values = sample.values
        if not values.keys() <= self._known:
            odd = sorted(values.keys() - self._known)
            raise ValueError(f"source {sample.source!r} had not declared {odd}")
        cells = [repr(values[metric]) if metric in values else "" for metric in self._metrics]
        self._lines.append(f"{sample.t_ns},{','.join(cells)}")
        # Small writes of several rows cost a tenth of one write a row.
        if now_ns - self._flushed_ns >= _FLUSH_NS:
            self.flush()
            self._flushed_ns = now_ns

    def flush(self) -> None:
        data = ("\n".join(self._lines) + "\n").encode()
        self._lines = []
        while data:
            data = data[os.write(self._descriptor, data) :]

    def close(self) -> None:
        try:
            if self._lines:
                self.flush()
        finally:
            os.close(self._descriptor)


def read_series(folder: Path) -> tuple[Series, ...]:
    """Read all telemetry of `folder`, sorted by file name; a truncated last line is left out.

    Raises:
        StoreError: a file is no telemetry of ours.
    """
    return tuple(_read(path) for path in sorted(folder.glob("*-*.csv")))


def _read(path: Path) -> Series:
    source, _, device = printable(path.stem).partition("-")
    content = read_file(path)
    header, _, body = content[: content.rfind(b"\n") + 1].partition(b"\n")
    names = printable(header.decode("utf-8", "replace")).split(",") if header else [_TIME]
    try:
        rows = _parsed(body, names)
        if _TIME not in names:
            raise ValueError(f"it has no column {_TIME}")
    except ValueError as error:
        raise StoreError(
            f"{path} is not a telemetry file: {error}",
            hint="Move that file away; the rest of the run is readable without it.",
        ) from error
    rows = rows[np.argsort(rows[_TIME], kind="stable")]
    columns = {name: np.ascontiguousarray(rows[name]) for name in names if name != _TIME}
    return Series(source=source, device=device, t_ns=np.ascontiguousarray(rows[_TIME]), columns=columns)


def _parsed(body: bytes, names: Sequence[str]) -> NDArray[np.void]:
    """Return rows of numbers by column, NaN where a cell is empty.

    Raises:
        ValueError: it is no such table.
    """
    dtype = np.dtype([(name, np.int64 if name == _TIME else np.float64) for name in names])
    if not body:
        return np.empty(0, dtype)
    # Twice, as of three commas in a row the middle one ends a match and begins the next cell.
    filled = body.replace(b",,", b",nan,").replace(b",,", b",nan,").replace(b",\n", b",nan\n")
    return np.atleast_1d(np.loadtxt(io.BytesIO(filled), dtype, delimiter=",", comments=None, ndmin=1))


def _store_error(path: Path, error: OSError) -> StoreError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    hint = "Free some space there" if full else "Check the folder's permissions"
    return StoreError(
        f"Telemetry cannot be written to {path}: {error.strerror}.",
        hint=f"{hint}, or choose another with --out.",
    )
