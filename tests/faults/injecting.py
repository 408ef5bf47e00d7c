"""Fault injection: hostile values, damaged documents and files.

TFBENCH_FAULTS is the total number of faults that `make faults` injects; by default each test injects a few
dozen.
"""

import json
import os
import random
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings

from harness.errors import StoreError, UsageError

ALL = int(os.environ.get("TFBENCH_FAULTS", "0"))
LIMIT_S = 60
HOSTILE: tuple[Any, ...] = (
    None, True, -1, 0, 1, 1 << 63, 1 << 70, 10**400, 1e308, -0.0, float("nan"), float("inf"), "", "x" * 100_000,
    "a\ud800b", "\x1b[31m\x1b]0;x\x07", "../../etc/passwd", "\0", "<script>alert(1)</script>", [], {}, [[]],
    {"a": 1}, ["x"], [None],
)  # fmt: skip


def faults(share: float, default: int) -> settings:
    """Return settings with `default` examples, or with this share of TFBENCH_FAULTS."""
    return settings(
        max_examples=max(1, round(ALL * share)) if ALL else default,
        deadline=None,
        derandomize=not ALL,
        suppress_health_check=list(HealthCheck),
    )


@contextmanager
def time_limit() -> Iterator[None]:
    """Fail the test if the block takes longer than LIMIT_S."""

    def fail(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"not finished after {LIMIT_S} s")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(LIMIT_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def succeeds_or_user_error() -> Iterator[None]:
    """Require that the block succeeds within the time limit or raises a user error with a hint."""
    with time_limit():
        try:
            yield
        except (StoreError, UsageError) as error:
            assert error.message.isprintable()
            assert error.hint


def damaged(document: Any, chance: random.Random) -> Any:
    """Return a copy of a document of plain values, with a random one replaced or removed."""
    copy = parent = deepcopy(document)
    while True:
        keys = list(parent) if isinstance(parent, dict) else list(range(len(parent)))
        if not keys:
            return copy
        key = chance.choice(keys)
        if isinstance(parent[key], (dict, list)) and parent[key] and chance.random() < 0.85:
            parent = parent[key]
            continue
        if chance.random() < 0.2:
            del parent[key]
        else:
            parent[key] = chance.choice(HOSTILE)
        return copy


def damage_json(path: Path, chance: random.Random) -> None:
    path.write_text(
        json.dumps(damaged(json.loads(path.read_text(encoding="utf-8")), chance)), encoding="utf-8"
    )


def damage_line(path: Path, chance: random.Random) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    number = chance.randrange(len(lines))
    lines[number] = json.dumps(damaged(json.loads(lines[number]), chance))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def truncate(path: Path, chance: random.Random) -> None:
    os.truncate(path, chance.randrange(path.stat().st_size + 1))


def change_bytes(path: Path, chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(chance.randint(1, 8)):
        content[chance.randrange(len(content))] = chance.randrange(256)
    path.write_bytes(content)


def nest(path: Path, chance: random.Random) -> None:
    depth = chance.choice((100, 1_000, 100_000))
    path.write_text('{"a":' * depth + "1" + "}" * depth, encoding="utf-8")


def grow(path: Path, chance: random.Random) -> None:
    os.truncate(path, 1 << 33)


REPLACEMENTS: tuple[Callable[[Path], object], ...] = (
    Path.mkdir,
    os.mkfifo,
    lambda path: path.symlink_to(path),
    lambda path: path.symlink_to("/dev/zero"),
    lambda path: path.symlink_to("/nowhere"),
)


def replace(path: Path, chance: random.Random) -> None:
    path.unlink()
    chance.choice(REPLACEMENTS)(path)


LIMITS = (
    -(1 << 63), (1 << 63) - 1, -1, 0, 1, 1 << 53, 1.7e308, -1.7e308, 5e-324, float("inf"), -float("inf"), float("nan"),
)  # fmt: skip


def damage_arrays(document: Any, chance: random.Random) -> Any:
    """Change the length of an array of a page's document, its type, or values to the limits of their range."""
    copy, found, pending = deepcopy(document), [], []
    pending.append(copy)
    while pending:
        value = pending.pop()
        if isinstance(value, list) and len(value) == 2 and isinstance(value[1], bytes):
            found.append(value)
        elif isinstance(value, (dict, list)):
            pending += value.values() if isinstance(value, dict) else value
    array = chance.choice([each for each in found if each[1]])
    values = np.frombuffer(array[1], array[0]).copy()
    match chance.randrange(4):
        case 0:
            values = values[: chance.randrange(len(values))]
        case 1:
            values = np.concatenate([values, values])
        case 2:
            array[0] = chance.choice(("<f8", "<i8", "<u1", "|O", "<f4"))
        case _:
            limit = chance.choice([each for each in LIMITS if array[0] == "<f8" or isinstance(each, int)])
            values[
                chance.choice((slice(None), slice(0, 1), slice(-1, None), slice(len(values) // 2, None)))
            ] = limit
    array[1] = values.tobytes()[: chance.choice((None, None, None, -3))]
    return copy


def damage_cell(path: Path, chance: random.Random) -> None:
    """Change a cell of a telemetry file to a limit of its range, or a row's number of cells."""
    rows = [row.split(",") for row in path.read_text(encoding="utf-8").splitlines()]
    row = chance.choice(rows)
    row[chance.randrange(len(row))] = str(chance.choice((*LIMITS, 10**400, "", "x", "0x1", "1,1", "\0")))
    path.write_text("".join(",".join(each) + "\n" for each in rows), encoding="utf-8")


Damage = Callable[[Path, random.Random], None]
FILE_DAMAGES: tuple[Damage, ...] = (truncate, change_bytes, nest, grow, replace)
