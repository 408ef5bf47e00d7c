"""Files of known machines: one of a few kilobytes for each, and an index of those that ship with tfbench.

The index says which kinds of device a file has, so that only those of the kinds at hand are read.
`python -m benchmarks.reference` writes both; a test checks them, also in a pull request.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import msgspec

from harness.errors import StoreError
from harness.model.comparison import KnownMachine
from harness.untrusted import parse_json, read_file

MACHINE_SUFFIX = ".machine.json"
MACHINES = Path(__file__).with_name("machines")
INDEX = MACHINES / "index.json"
MAX_BYTES = 64 << 10
# No machine is measured to be as slow or as fast.
_LEAST, _MOST = 1e-12, 1e30


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFile:
    """Content of a file of a known machine."""

    schema: Literal["tfbench-machine"]
    schema_version: Literal[1]
    machine: KnownMachine


def machine_json(machine: KnownMachine) -> str:
    """Return the file of a machine, without its name."""
    file = MachineFile(schema="tfbench-machine", schema_version=1, machine=replace(machine, name=""))
    content = msgspec.json.encode(file)
    return msgspec.json.format(content, indent=1).decode() + "\n"


def read_machine(path: Path) -> KnownMachine:
    """Read the file of a known machine.

    Raises:
        StoreError: it cannot be read, is too large, or has another schema.
    """
    hint = "Write it with `tfbench report RUN --format machine` of this version."
    try:
        content = read_file(path, max_bytes=MAX_BYTES)
    except StoreError as error:
        if not path.is_file() or path.stat().st_size <= MAX_BYTES:
            raise
        raise StoreError(
            f"{path} is no machine's file: it is larger than {MAX_BYTES >> 10} KiB.", hint=hint
        ) from error
    try:
        machine = msgspec.convert(parse_json(content), MachineFile).machine
    except ValueError as error:
        raise StoreError(f"{path} is not the file of a machine: {error}.", hint=hint) from error
    for value in (value for device in machine.devices.values() for value in device.values.values()):
        if not _LEAST <= value <= _MOST:
            raise StoreError(
                f"{path} is not the file of a machine: {value:g} is no measured value.", hint=hint
            )
    return replace(machine, name=path.name.removesuffix(MACHINE_SUFFIX).removesuffix(".json"))


def added_machines(paths: Sequence[Path]) -> tuple[KnownMachine, ...]:
    """Read files of machines, and all of those in folders.

    Raises:
        StoreError: one cannot be read, or a folder has none.
    """
    result: list[KnownMachine] = []
    for path in paths:
        files = sorted(path.glob(f"*{MACHINE_SUFFIX}")) if path.is_dir() else [path]
        if not files:
            raise StoreError(
                f"{path} has no files named *{MACHINE_SUFFIX}.",
                hint="Write one with `tfbench report RUN --format machine`.",
            )
        result += map(read_machine, files)
    return tuple(result)


def index_of(machines: Sequence[KnownMachine]) -> dict[str, list[str]]:
    """Return each kind of device with the names of its machines."""
    kinds: dict[str, list[str]] = {}
    for machine in machines:
        for kind in dict.fromkeys(device.kind for device in machine.devices.values()):
            kinds.setdefault(kind, []).append(machine.name)
    return {kind: sorted(names) for kind, names in sorted(kinds.items())}


def shipped_machines(kinds: Collection[str] | None = None) -> tuple[KnownMachine, ...]:
    """Return the machines that ship with tfbench and have a device of one of these kinds; all for None."""
    index: Mapping[str, list[str]] = msgspec.json.decode(INDEX.read_bytes())
    names = {name for kind, names in index.items() if kinds is None or kind in kinds for name in names}
    return tuple(read_machine(MACHINES / f"{name}{MACHINE_SUFFIX}") for name in sorted(names))
