"""Runs in brief from wherever they are: run folders, report files, extracts; on all CPUs."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from harness.errors import StoreError, UsageError
from harness.model.comparison import Extract
from harness.model.run import Prices
from harness.progress import Progress
from harness.run.extracts import SUFFIX, from_json
from harness.run.prices import read_prices
from harness.run.recording import open_recording

# Runs that are not worth a second process: starting one takes as long as reading some.
_FEW = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A run's path and what to call it; the label is "" for its own."""

    path: Path
    label: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A run in brief, or why there is none."""

    path: Path
    extract: Extract | None
    error: str = ""
    hint: str = ""


def named(word: str) -> Named:
    """Read PATH or NAME=PATH; a path that exists is a path whatever it contains."""
    label, equals, path = word.partition("=")
    if equals and label and not Path(word).exists():
        return Named(path=Path(path), label=label)
    return Named(path=Path(word))


def gather(wanted: Sequence[Named], *, price: str, progress: Progress) -> tuple[Found, ...]:
    """Return each run in brief, in order; what cannot be read comes with why.

    Args:
        price: as written with --price; "" for the runs' own.
    """
    prices = read_prices(price) if price else None  # a mistake in it is the user's, not a run's
    made: list[Found] = []
    with progress.task("Reading runs", float(len(wanted)), "") as task:
        for found in _all(partial(_read, prices=prices), [one.path for one in wanted]):
            made.append(found)
            task.advance(1)
    return tuple(_labelled(found, one) for found, one in zip(made, wanted, strict=True))


def all_of(found: Sequence[Found]) -> tuple[Extract, ...]:
    """Return the extracts.

    Raises:
        StoreError: a run could not be read.
    """
    for one in found:
        if one.extract is None:
            raise StoreError(one.error, hint=one.hint)
    return tuple(one.extract for one in found if one.extract is not None)


def narrowed(
    runs: Sequence[Extract], *, workloads: Sequence[str], devices: Sequence[str]
) -> tuple[Extract, ...]:
    """Return runs with the speeds of some workloads and devices only; of all where none is named.

    Raises:
        UsageError: no run has measured such a workload, or anything of the workloads on such a device.
    """
    measured = {(one.workload, one.device) for run in runs for one in run.speeds}
    _check(workloads, {name for name, _ in measured}, "a workload")
    measured = {pair for pair in measured if not workloads or pair[0] in workloads}
    _check(devices, {device for _, device in measured}, f"{' or '.join(workloads) or 'anything'} on")
    measured = {pair for pair in measured if not devices or pair[1] in devices}
    return tuple(
        replace(run, speeds=tuple(one for one in run.speeds if (one.workload, one.device) in measured))
        for run in runs
    )


def _check(names: Sequence[str], measured: Collection[str], what: str) -> None:
    """Refuse names that nothing was measured of; where nothing was measured at all there is no choice."""
    for name in names:
        if measured and name not in measured:
            raise UsageError(
                f"No run here has measured {what} {name!r}.",
                hint=f"Choose from: {', '.join(sorted(measured))}.",
            )


def _all(read: partial[Found], paths: Sequence[Path]) -> Iterator[Found]:
    workers = min(os.cpu_count() or 1, len(paths) // _FEW)
    if workers < 2:
        yield from map(read, paths)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(read, paths, chunksize=_FEW)


def _brief(path: Path) -> bool:
    """Tell whether a file is a run in brief already."""
    return path.name.endswith(SUFFIX)


def _read(path: Path, *, prices: Prices | None) -> Found:
    """Read and analyse one run; in a process of its own where there are many."""
    from harness.analysis import analyse, priced  # noqa: PLC0415 - kept off the start of the command
    from harness.analysis.extract import extract  # noqa: PLC0415

    try:
        if _brief(path):
            return Found(path=path, extract=_from_file(path))
        recording = open_recording(path)
        run, analysis = recording.run, recording.analysis
        if prices is not None:
            run = replace(run, manifest=replace(run.manifest, prices=prices))
            analysis = priced(analysis, run) if analysis else None
        analysis = analysis or analyse(run)
        return Found(path=path, extract=extract(analysis, source=str(path)))
    except (StoreError, UsageError) as error:
        return Found(path=path, extract=None, error=error.message, hint=error.hint)


def _from_file(path: Path) -> Extract:
    hint = "Make it again with this version of tfbench."
    try:
        found = from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise StoreError(f"Cannot read {path}: {error}.", hint=hint) from error
    if found is None:
        raise StoreError(f"{path} is not an extract of this version.", hint=hint)
    return found


def _labelled(found: Found, asked: Named) -> Found:
    if found.extract is None or not asked.label:
        return found
    return replace(found, extract=replace(found.extract, label=asked.label))
