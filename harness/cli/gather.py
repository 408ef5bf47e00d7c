"""Runs in brief from wherever they are: run folders, report files, extracts; on all CPUs, cached."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from harness.errors import StoreError, UsageError
from harness.extracts import SUFFIX, Cache, from_json
from harness.model.comparison import Extract
from harness.prices import PriceList, prices_in, read_prices
from harness.progress import Progress
from harness.recording import open_recording

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


def runs_under(folder: Path) -> tuple[Path, ...]:
    """Return the run folders, report files and extracts in a folder, or in the folders in it.

    Raises:
        StoreError: it is no folder.
    """
    if not folder.is_dir():
        raise StoreError(f"{folder} is not a folder.", hint="Name the folder that runs are in, as runs/.")
    if (folder / "manifest.json").exists():
        return (folder,)
    found: list[Path] = []
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            found += [path] if (path / "manifest.json").exists() else sorted(_inside(path))
        elif path.suffix == ".html" or path.name.endswith(SUFFIX):
            found.append(path)
    return tuple(found)


def _inside(folder: Path) -> Iterator[Path]:
    return (one.parent for one in folder.glob("*/manifest.json"))


def gather(wanted: Sequence[Named], *, cache: Cache, price: str, progress: Progress) -> tuple[Found, ...]:
    """Return each run in brief, in order; what cannot be read comes with why.

    Args:
        price: baseline with --price; a machine that it does not know has no costs.
    """
    listed = read_prices(price) if price else None  # a mistake in it is the user's, not a run's
    # By what it says: a price file may have changed under its name.
    paid = json.dumps(asdict(listed), sort_keys=True) if listed else ""
    found: dict[int, Found] = {}
    missing: list[int] = []
    for number, one in enumerate(wanted):
        kept = None if _brief(one.path) else cache.find(one.path, paid)
        if kept is None:
            missing.append(number)
        else:
            found[number] = Found(path=one.path, extract=kept)
    with progress.task("Reading runs", float(len(missing)), "") as task:
        read = partial(_read, listed=listed)
        paths = [wanted[number].path for number in missing]
        for number, made in zip(missing, _all(read, paths), strict=True):
            found[number] = made
            if made.extract is not None and not _brief(wanted[number].path):
                cache.keep(wanted[number].path, paid, made.extract)
            task.advance(1)
    return tuple(_labelled(found[number], one) for number, one in enumerate(wanted))


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
    """Tell whether a file is a run in brief already: no cache is faster than reading it."""
    return path.name.endswith(SUFFIX)


def _read(path: Path, *, listed: PriceList | None) -> Found:
    """Read and analyse one run; in a process of its own where there are many."""
    from harness.analysis import analyse, priced  # noqa: PLC0415 - kept off the start of the command
    from harness.analysis.extract import extract  # noqa: PLC0415

    try:
        if _brief(path):
            return Found(path=path, extract=_from_file(path))
        recording = open_recording(path)
        run, analysis = recording.run, recording.analysis
        if listed is not None:
            run = replace(run, manifest=replace(run.manifest, prices=prices_in(listed, run.manifest)))
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
