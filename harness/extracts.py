"""Extracts on disk: a cache, so that a folder of many runs opens quickly, and files for other machines.

A cached extract is found by all that it was made from: the names, sizes and times of the run's files, the
prices, and the code that analyses.
Whatever is wrong with one, it is made again.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import cattrs

from harness import __version__
from harness.model.comparison import EXTRACT_VERSION, Extract

_SCHEMA = "tfbench-extract"
# What the file of an extract that travels is called.
SUFFIX = ".extract.json"


def to_json(extract: Extract) -> dict[str, Any]:
    """Return an extract as plain values."""
    return {"schema": _SCHEMA, "schema_version": EXTRACT_VERSION, **asdict(extract)}


def from_json(document: object) -> Extract | None:
    """Return an extract from plain values; None when they are none of this version."""
    if not isinstance(document, dict) or document.get("schema") != _SCHEMA:
        return None
    if document.get("schema_version") != EXTRACT_VERSION:
        return None
    fields = {name: value for name, value in document.items() if not name.startswith("schema")}
    try:
        return cattrs.structure(fields, Extract)
    except (cattrs.BaseValidationError, TypeError, ValueError):
        return None


class Cache:
    """A folder of extracts; what cannot be read or written is as if it were not there."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, run: Path, price: str = "") -> Extract | None:
        """Return a run's extract if it is there and the run has not changed since.

        Args:
            price: what its costs were computed with, in words; "" for the run's own prices.
        """
        try:
            with gzip.open(self._path(run, price), "rt", encoding="utf-8") as file:
                return from_json(json.load(file))
        except (OSError, ValueError, EOFError):
            return None

    def keep(self, run: Path, price: str, extract: Extract) -> None:
        """Write a run's extract, whole or not at all."""
        text = json.dumps(to_json(extract), separators=(",", ":"))
        try:
            path = self._path(run, price)
            path.parent.mkdir(parents=True, exist_ok=True)
            partial = path.with_name(f"{path.name}.{os.getpid()}")
            partial.write_bytes(gzip.compress(text.encode(), compresslevel=1, mtime=0))
            partial.replace(path)
        except OSError:
            return

    def _path(self, run: Path, price: str) -> Path:
        name = hashlib.sha256("\n".join((*_made_from(run), price)).encode()).hexdigest()
        return self._folder / name[:2] / f"{name}.json.gz"


@cache
def _program() -> str:
    """Return a digest of what computes extracts; it takes about a millisecond."""
    found = hashlib.sha256(f"{__version__} {EXTRACT_VERSION} {' '.join(Extract.__slots__)}".encode())
    for folder in ("analysis", "model"):
        for path in sorted((Path(__file__).parent / folder).glob("*.py")):
            found.update(path.read_bytes())
    return found.hexdigest()


def _made_from(run: Path) -> Iterator[str]:
    """Yield what an extract depends on: this program, what it keeps, and every file that is not derived."""
    yield f"{_program()} {run.resolve()}"
    for path in _files(run):
        stat = path.stat()
        yield f"{path.name} {stat.st_size} {stat.st_mtime_ns}"


def _files(run: Path) -> Iterator[Path]:
    if run.is_file():
        yield run
        return
    for name in ("manifest.json", "plan.json", "stops.json"):
        if (run / name).exists():
            yield run / name
    trials = run / "trials"
    if trials.is_dir():
        for folder in sorted(trials.iterdir()):
            for name in ("trial.json", "out/events.jsonl"):
                if (folder / name).exists():
                    yield folder / name
