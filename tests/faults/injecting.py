"""Faults to inject: hostile values, damaged documents and files; and what holds whatever is injected.

TFBENCH_FAULTS is how many faults `make faults` injects in all; without it a test injects some dozens.
"""

from __future__ import annotations

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

from hypothesis import HealthCheck, settings

from harness.errors import StoreError, UsageError

ALL = int(os.environ.get("TFBENCH_FAULTS", "0"))
LONGEST_S = 60
HOSTILE: tuple[Any, ...] = (
    None, True, -1, 0, 1, 1 << 70, 10**400, 1e308, -0.0, float("nan"), float("inf"), "", "x" * 100_000,
    "a\ud800b", "\x1b[31m\x1b]0;x\x07", "../../etc/passwd", "\0", "<script>alert(1)</script>", [], {}, [[]],
    {"a": 1}, ["x"], [None],
)  # fmt: skip


def faults(share: float, usual: int) -> settings:
    """Return how many examples a test tries: `usual`, or its share of all."""
    return settings(
        max_examples=max(1, round(ALL * share)) if ALL else usual,
        deadline=None,
        derandomize=not ALL,
        suppress_health_check=list(HealthCheck),
    )


@contextmanager
def soon() -> Iterator[None]:
    """Fail the test when the block takes longer than LONGEST_S."""

    def give_up(number: int, frame: FrameType | None) -> None:
        raise AssertionError(f"it hangs for {LONGEST_S} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(LONGEST_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def read_or_refused() -> Iterator[None]:
    """Let the block come soon to its end, or to an error of ours that says what to do."""
    with soon():
        try:
            yield
        except (StoreError, UsageError) as error:
            assert error.message.isprintable()
            assert error.hint


def damaged(document: Any, chance: random.Random) -> Any:
    """Return a copy of plain values with one of them, anywhere, replaced or taken away."""
    copy = place = deepcopy(document)
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return copy
        key = chance.choice(keys)
        if isinstance(place[key], (dict, list)) and place[key] and chance.random() < 0.85:
            place = place[key]
            continue
        if chance.random() < 0.2:
            del place[key]
        else:
            place[key] = chance.choice(HOSTILE)
        return copy


def damage_json(path: Path, chance: random.Random) -> None:
    """Change one value in a file of JSON."""
    path.write_text(
        json.dumps(damaged(json.loads(path.read_text(encoding="utf-8")), chance)), encoding="utf-8"
    )


def damage_line(path: Path, chance: random.Random) -> None:
    """Change one value in a file of JSON lines."""
    lines = path.read_text(encoding="utf-8").splitlines()
    number = chance.randrange(len(lines))
    lines[number] = json.dumps(damaged(json.loads(lines[number]), chance))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def cut(path: Path, chance: random.Random) -> None:
    """Cut a file off somewhere."""
    os.truncate(path, chance.randrange(path.stat().st_size + 1))


def flip(path: Path, chance: random.Random) -> None:
    """Change some bytes of a file."""
    content = bytearray(path.read_bytes())
    for _ in range(chance.randint(1, 8)):
        content[chance.randrange(len(content))] = chance.randrange(256)
    path.write_bytes(content)


def nest(path: Path, chance: random.Random) -> None:
    """Have a file nest brackets."""
    depth = chance.choice((100, 1_000, 100_000))
    path.write_text('{"a":' * depth + "1" + "}" * depth, encoding="utf-8")


def grow(path: Path, chance: random.Random) -> None:
    """Make a file of absurd size that takes no space."""
    os.truncate(path, 1 << 33)


REPLACEMENTS: tuple[Callable[[Path], object], ...] = (
    Path.mkdir,
    os.mkfifo,
    lambda path: path.symlink_to(path),
    lambda path: path.symlink_to("/dev/zero"),
    lambda path: path.symlink_to("/nowhere"),
)


def replace(path: Path, chance: random.Random) -> None:
    """Put something else in a file's place."""
    path.unlink()
    chance.choice(REPLACEMENTS)(path)


Damage = Callable[[Path, random.Random], None]
TO_ANY_FILE: tuple[Damage, ...] = (cut, flip, nest, grow, replace)
