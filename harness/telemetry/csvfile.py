"""Telemetry on disk: one append-only CSV file per source and device, named SOURCE-DEVICE.csv.

The columns are t_ns (CLOCK_MONOTONIC, nanoseconds) and the metrics; an empty cell is a missing value.

    pandas.read_csv("nvml-gpu0.csv")
    duckdb.sql("from 'nvml-gpu0.csv'")
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from harness.errors import StoreError, on_disk
from harness.model.run import Series, TelemetryGap
from harness.telemetry import Sample
from harness.untrusted import printable, read_file

_TIME = "t_ns"


class TelemetryWriter:
    """Write samples to files in `folder`, row by row, so that none is lost if the harness is killed.

    Different threads may write different sources. All methods raise StoreError if a file cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[tuple[str, str], tuple[TextIO, Sequence[str]]] = {}
        self._open = ExitStack()

    def __enter__(self) -> TelemetryWriter:
        with on_disk(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, *what: object) -> None:
        # An error in the body takes precedence.
        with suppress(StoreError) if kind else nullcontext(), on_disk(self._folder):
            self._open.close()

    def begin(self, source: str, columns: Mapping[str, Sequence[str]]) -> None:
        """Create a source's files; `columns` maps devices to metrics."""
        for device, metrics in columns.items():
            if metrics:
                path = self._folder / f"{source}-{device}.csv"
                with on_disk(path):
                    # Line buffering costs 2 us per row.
                    file = self._open.enter_context(path.open("w", buffering=1, encoding="utf-8"))
                    self._files[source, device] = file, metrics
                    file.write(",".join((_TIME, *metrics)) + "\n")

    def write(self, source: str, samples: Iterable[Sample]) -> None:
        """Append a source's samples, without undeclared metrics."""
        with on_disk(self._folder):
            for sample in samples:
                file, metrics = self._files[source, sample.device]
                cells = (repr(sample.values[metric]) if metric in sample.values else "" for metric in metrics)
                file.write(f"{sample.t_ns},{','.join(cells)}\n")


def read_series(folder: Path) -> tuple[tuple[Series, ...], tuple[TelemetryGap, ...]]:
    """Read all telemetry files, ignoring truncated last lines.

    Returns:
        What they contain, and a gap for each damaged file, of unknown start and end (0).
    """
    series, gaps = [], []
    for path in sorted(folder.glob("*-*.csv")):
        source, _, device = printable(path.stem).partition("-")
        try:
            series.append(_read(path, source, device))
        except (StoreError, ValueError, KeyError, OverflowError) as error:
            first = printable(str(error)).partition("\n")[0]
            reason = f"{path.name} is damaged: {first}"
            gaps.append(
                TelemetryGap(source=source, device=device, metric="*", start_ns=0, end_ns=0, reason=reason)
            )
    return tuple(series), tuple(gaps)


def _read(path: Path, source: str, device: str) -> Series:
    content = read_file(path)
    header, _, body = content[: content.rfind(b"\n") + 1].partition(b"\n")
    names = printable(header.decode("utf-8", "replace")).split(",") if header else [_TIME]
    rows = _parse_rows(body, names)
    if _TIME not in names:
        raise ValueError(f"no column {_TIME}")
    rows = rows[np.argsort(rows[_TIME], kind="stable")]
    columns = {name: np.ascontiguousarray(rows[name]) for name in names if name != _TIME}
    return Series(source=source, device=device, t_ns=np.ascontiguousarray(rows[_TIME]), columns=columns)


def _parse_rows(body: bytes, names: Sequence[str]) -> NDArray[np.void]:
    """Parse rows into a structured array, empty cells as NaN; raise ValueError if they do not match."""
    dtype = np.dtype([(name, np.int64 if name == _TIME else np.float64) for name in names])
    if not body:
        return np.empty(0, dtype)
    # Replaced twice, because matches cannot overlap.
    filled = body.replace(b",,", b",nan,").replace(b",,", b",nan,").replace(b",\n", b",nan\n")
    return np.atleast_1d(np.loadtxt(io.BytesIO(filled), dtype, delimiter=",", comments=None, ndmin=1))
