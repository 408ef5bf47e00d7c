"""The built-in workloads and those of the user's files, which are parsed and never executed."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import workloads
from harness.digests import file_sha256
from harness.errors import StoreError, UsageError, unknown
from harness.run.declarations import HINT, declarations, evaluate
from harness.untrusted import printable, read_file
from workloads.protocol import Workload

# Size limit of a workload file.
MAX_BYTES = 1 << 20


_FOLDER = Path(workloads.__file__).parent


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A workload and the file that implements it."""

    workload: Workload
    path: Path

    @property
    def external(self) -> bool:
        """Whether the file is the user's."""
        return self.path.parent != _FOLDER


def built_in() -> tuple[Entry, ...]:
    """Return the built-in workloads, sorted by name."""
    entries = (
        entry for path in _FOLDER.glob("*.py") for entry in _entries(ast.parse(path.read_bytes()), path)
    )
    return tuple(sorted(entries, key=lambda entry: entry.workload.name))


def external(path: Path) -> tuple[Entry, ...]:
    """Return the workloads declared in a user's file.

    Raises:
        UsageError: no such file, not Python, or no valid `workload = Workload(...)`.
    """
    try:
        tree = ast.parse(read_file(path, max_bytes=MAX_BYTES), filename=str(path))
    except StoreError as error:
        raise UsageError(error.message, hint=error.hint) from error
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        reason = printable(str(error), 300) or "it is nested too deeply"
        raise UsageError(
            f"{path} is not Python: {reason}.", hint="Run it with python3 to see why."
        ) from error
    entries = _entries(tree, path.resolve())
    if not entries:
        raise UsageError(f"{path} declares no workload.", hint=HINT)
    return entries


def select(entries: tuple[Entry, ...], names: tuple[str, ...]) -> tuple[Entry, ...]:
    """Return the entries with the given names; none means the default suite, "all" every entry.

    Raises:
        UsageError: unknown name; the message lists the available ones.
    """
    if not names:
        return tuple(entry for entry in entries if entry.workload.suite == "default")
    if "all" in names:
        return entries
    available = {entry.workload.name: entry for entry in entries}
    for name in names:
        if name not in available:
            raise unknown("workload", name, (*sorted(available), "all"))
    return tuple(available[name] for name in dict.fromkeys(names))


def sources(entries: Sequence[Entry]) -> Mapping[str, str]:
    """Return the SHA-256 of each workload's file by name, and of the shared files as "workloads"."""
    shared = hashlib.sha256()
    for path in sorted(_FOLDER.rglob("*.py")):
        if not declarations(ast.parse(path.read_bytes())):
            shared.update(f"{path.relative_to(_FOLDER)} {file_sha256(path)}\n".encode())
    own = {entry.workload.name: file_sha256(entry.path) for entry in entries}
    return {"workloads": shared.hexdigest(), **own}


def _entries(tree: ast.Module, path: Path) -> tuple[Entry, ...]:
    return tuple(Entry(workload=evaluate(tree, node, path), path=path) for node in declarations(tree))
