"""The built-in workloads, and scripts of the user."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import stat
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import workloads
from harness.errors import UsageError, unknown
from harness.model.workload import BESIDE, INSIDE, SCRIPTS, Beside, FileState, Workload
from harness.run.scripts import MAX_NAME, RESERVED, read_workloads
from harness.system.shared_files import file_sha256
from workloads.cells import NOTEBOOK
from workloads.protocol import NOT_READ, of_kernel

_FOLDER = Path(workloads.__file__).parent
_COMPONENTS = _FOLDER / "components"
# Limits of hashing a folder file by file.
MAX_FILES, MAX_BYTES = 10_000, 1 << 30
# Folders that change without a script; .cache is beside one in the home folder.
_NOT_BESIDE = (*NOT_READ, ".cache")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A workload and its script's path."""

    workload: Workload
    path: Path

    @property
    def folder(self) -> Path:
        """The folder that it runs in: its own, or that of its top package."""
        return self.path.parents[self.workload.module.count(".")]

    @property
    def is_own(self) -> bool:
        """Whether it is a script of the user."""
        return not self.path.is_relative_to(_FOLDER)


@cache
def built_in() -> tuple[Entry, ...]:
    """Return the built-in workloads, sorted by name."""
    paths = _FOLDER.glob("*/published.py")
    entries = (entry for path in paths for entry in _entries(path, path.parent.name))
    return tuple(sorted(entries, key=lambda entry: entry.workload.name))


def select(names: Sequence[str], *, on_gpus: bool = False) -> tuple[Entry, ...]:
    """Return the workloads of names and paths of scripts; none means the default suite, "all" every built-in one.

    Args:
        on_gpus: whether the default suite is that of a machine with GPUs.

    Raises:
        UsageError: an unknown name, not a script, or two workloads of one name.
    """
    if not names:
        suites = ("default", "gpu" if on_gpus else "cpu")
        return tuple(entry for entry in built_in() if entry.workload.suite in suites)
    chosen: list[Entry] = []
    for name in dict.fromkeys(names):
        if name.endswith(SCRIPTS):
            path = Path(name).absolute()
            # Each package has a file of this name.
            plain = _plain_name(path.parent.name if path.stem == "__main__" else path.stem)
            _, inside, below = name.rpartition(INSIDE)
            module = ".".join(Path(below).with_suffix("").parts) if inside else ""
            chosen += (
                replace(entry, workload=replace(entry.workload, module=module))
                for entry in _entries(path, plain)
            )
        elif found := [entry for entry in built_in() if name in (entry.workload.name, "all")]:
            chosen += found
        elif name.startswith("-"):
            raise UsageError(f"{name} is no workload.", hint=f"Pass arguments of a script with --arg={name}.")
        elif {"/", "."} & set(name):
            raise UsageError(
                f"{name} is no Python script or notebook.",
                hint="Give the path of a script that ends with .py, or of a notebook, .ipynb.",
            )
        else:
            known = (entry.workload.name for entry in built_in())
            raise unknown("workload", name, (*known, "all", "the path of a script such as train.py"))
    result = {os.path.normpath(entry.path) + entry.workload.name: entry for entry in chosen}
    by_name: dict[str, Entry] = {}
    for entry in result.values():
        if by_name.setdefault(entry.workload.name, entry) is not entry:
            raise UsageError(
                f"{entry.path} and {by_name[entry.workload.name].path} are both named {entry.workload.name}.",
                hint="Rename one of the scripts.",
            )
    return tuple(result.values())


def _plain_name(stem: str) -> str:
    """Return a script's name as that of trials and folders, which may not have any characters as a path may."""
    letters = "".join(each for each in unicodedata.normalize("NFKD", stem) if not unicodedata.combining(each))
    # A dot ends a name among those of numbers, as in resnet50.tuned.
    name = re.sub(r"[^\w-]+", "-", letters, flags=re.ASCII).strip("-_")[:MAX_NAME]
    # Known machines have measured the built-in workloads.
    if name in ("", *RESERVED, *(entry.workload.name for entry in built_in())):
        name = f"{name}-script".strip("-")
    if letters.isascii():
        return name
    # Letters of other alphabets are lost, and scripts must differ.
    digest = hashlib.sha256(stem.encode(errors="surrogateescape")).hexdigest()[:6]
    return f"{name[: MAX_NAME - 7]}-{digest}"


def beside(entries: Iterable[Entry]) -> Beside:
    """Return the files in the folders of the user's scripts."""
    users = (entry for entry in entries if entry.is_own)
    return Beside(scripts={entry.workload.name: _states(entry.folder) for entry in users})


def python_below(mounts: Iterable[Path]) -> dict[str, FileState]:
    """Return the Python files of mounts, by their paths."""
    found: dict[str, FileState] = {}
    for mount in mounts:
        folder = mount if mount.is_dir() else mount.parent
        paths = _found(mount) if mount.is_dir() else [mount]
        states = _states(folder, [path for path in paths if path.suffix == ".py"])
        found |= {f"{folder}/{name}": state for name, state in states.items()}
    return found


def sources(
    entries: Sequence[Entry], mounts: Iterable[Path] = (), files: Beside | None = None
) -> Mapping[str, str]:
    """Return the SHA-256 of each workload's Python files by name, of the driver as "workloads", and of each mount.

    Other files beside a user's script, which it may read or not, follow as BESIDE and the name.

    Args:
        files: the result of `beside`, to read them only once.
    """
    shared = hashlib.sha256()
    for path in sorted(
        (*_FOLDER.glob("*.py"), *(_FOLDER / "driver").rglob("*.py"), *_COMPONENTS.glob("*.py"))
    ):
        shared.update(f"{path.relative_to(_FOLDER)} {file_sha256(path)}\n".encode())
    known = (files or beside(entries)).scripts
    own: dict[str, str] = {}
    for entry in entries:
        name = entry.workload.name
        states = known[name] if name in known else _states(entry.folder)
        own[name] = _digest({each: state for each, state in states.items() if each.endswith(".py")})
        if entry.path.suffix == NOTEBOOK:  # saving it with other outputs does not change what runs
            text = entry.workload.scripts[entry.workload.file]
            own[name] = hashlib.sha256(f"{own[name]} {text}".encode()).hexdigest()
        if name in known:
            notebook = str(entry.path.relative_to(entry.folder))
            others = (file for file in states if not file.endswith(".py") and file != notebook)
            own[f"{BESIDE}{name}"] = _digest({file: states[file] for file in others})
    return {"workloads": shared.hexdigest(), **own, **{str(path): folder_sha256(path) for path in mounts}}


def folder_sha256(path: Path) -> str:
    """Return a hash of a file, or of the names and contents of all files below a folder.

    Above MAX_BYTES in total, size and time stand for the content; above MAX_FILES, only Python files directly in
    the folder count.
    """
    return file_sha256(path) if path.is_file() else _digest(_states(path))


def _found(folder: Path) -> list[Path]:
    found = sorted(itertools.islice(_files(folder), MAX_FILES + 1))
    if len(found) > MAX_FILES:
        found = sorted(path for path in folder.glob("*.py") if _state(path))
    return found


def _states(folder: Path, paths: Iterable[Path] | None = None) -> dict[str, FileState]:
    # A program may remove its files meanwhile.
    paths = _found(folder) if paths is None else paths
    found = {path: state for path in paths if (state := _state(path))}
    python_bytes = sum(state.st_size for path, state in found.items() if path.suffix == ".py")
    other_bytes = sum(state.st_size for state in found.values()) - python_bytes
    result = {}
    for path, state in found.items():
        content = f"{state.st_size} {state.st_mtime_ns}"
        if (python_bytes if path.suffix == ".py" else other_bytes) <= MAX_BYTES:
            try:
                content = file_sha256(path)
            except OSError:  # not readable, nor by the script
                content = "-"
        name = os.fsencode(path.relative_to(folder)).decode("utf-8", "backslashreplace")
        result[name] = FileState(content=content, size=state.st_size, changed_ns=state.st_mtime_ns)
    return result


def _digest(states: Mapping[str, FileState]) -> str:
    digest = hashlib.sha256()
    for name, state in states.items():
        digest.update(f"{name} {state.content}\n".encode())
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder, and the Python files of those elsewhere that links in it lead to."""
    # Python's own walk of a folder is recursive up to 3.11.
    root, seen = folder.resolve(), 0
    pending = [(folder, frozenset[Path]())]  # with the links that lead there
    while pending:
        current, through = pending.pop()
        try:
            entries = list(os.scandir(current))
        except OSError:
            continue
        if {"plan.json", "manifest.json"} <= {entry.name for entry in entries}:  # a run of this script
            continue
        seen += len(entries) if through else 0
        if seen > MAX_FILES:  # data
            continue
        for entry in sorted(entries, key=lambda entry: entry.name):
            path = Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _NOT_BESIDE:
                    pending.append((path, through))
            elif entry.is_symlink() and path.is_dir():
                leads_to = path.resolve()
                known = leads_to.is_relative_to(root) or root.is_relative_to(leads_to)
                if not (known or leads_to in through or of_kernel(str(leads_to))):
                    pending.append((path, through | {leads_to}))
            elif (path.suffix == ".py" or not through) and _state(path):
                yield path


def _state(path: Path) -> os.stat_result | None:
    """Return the state of a file; None if it is none, is gone, or is in a folder that may not be entered."""
    with suppress(OSError):
        state = path.stat()
        return state if stat.S_ISREG(state.st_mode) else None
    return None


def _entries(path: Path, name: str) -> tuple[Entry, ...]:
    return tuple(Entry(workload=workload, path=path) for workload in read_workloads(path, name))
