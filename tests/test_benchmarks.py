"""The benchmark of sampling overhead, without an engine or a GPU."""

import math
import sys

import pytest

from benchmarks.sampling import Turn, speed, table, take_turns

pytestmark = pytest.mark.slow

SECOND = 1_000_000_000
ASLEEP = (sys.executable, "-c", "import time; time.sleep(60)")
# A shell, because Python's start can take longer than a turn.
BROKEN = ("sh", "-c", "echo 'Traceback\nno driver' >&2; exit 1")


def turn(sampler: str, number: int, **changed: object) -> Turn:
    defaults = {"sampler": sampler, "round": number, "start_ns": 0, "end_ns": 2 * SECOND, "cpu_s": 0.02,
             "memory_bytes": 3 << 20, "speed": 1000.0}  # fmt: skip
    return Turn(**{**defaults, **changed})


def test_rounds_rotate_samplers_and_skip_unavailable_ones() -> None:
    samplers = {"none": (), "asleep": ASLEEP, "broken": BROKEN, "missing": ("/no/such/program",)}
    turns, unavailable = take_turns(samplers, 3, turn_s=0.05, settle_s=0.3)
    names = [each.sampler for each in turns]
    assert names == ["none", "asleep", "asleep", "none", "none", "asleep"]
    assert [each.round for each in turns] == [0, 0, 1, 1, 2, 2]
    assert unavailable["broken"] == "no driver"
    assert "No such file" in unavailable["missing"]
    assert all(each.memory_bytes > 1 << 20 for each in turns if each.sampler == "asleep")


def test_only_windows_entirely_within_a_turn_count() -> None:
    windows = [(0, 2, 1000), (2, 4, 10), (4, 6, 30), (6, 9, 1000)]
    assert speed(windows, 2, 8) == pytest.approx(40e9 / 4)
    assert math.isnan(speed([(0, 2, 10)], 1, 9))


def test_slowdown_is_relative_to_the_same_round_and_needs_windows() -> None:
    turns = [
        turn("none", 0), turn("x", 0, speed=800.0), turn("none", 1, speed=500.0), turn("x", 1, speed=400.0),
        turn("y", 0, speed=float("nan")),
    ]  # fmt: skip
    lines = list(table(turns, {"z": "no driver."}))
    assert lines[2:4] == ["| x | +25.00 (+25.00 to +25.00) | 1.00 | 3 |", "| y | - | 1.00 | 3 |"]
    assert lines[-1] == "Left out: z, no driver."
