"""The benchmarks of the harness itself: what they count and leave out, without engine and GPU."""

from __future__ import annotations

import math
import os
import sys
import time
from functools import partial
from pathlib import Path

import psutil
import pytest

from benchmarks.processes import UnavailableError, cpu_s, memory_bytes, running
from benchmarks.sampling import Turn, speed, table, take_turns
from benchmarks.starting import pairs

pytestmark = pytest.mark.slow

SECOND = 1_000_000_000
ASLEEP = (sys.executable, "-c", "import time; time.sleep(60)")
BROKEN = (sys.executable, "-c", "import not_there_at_all")


def turn(sampler: str, number: int, **changed: object) -> Turn:
    given = {"sampler": sampler, "round": number, "start_ns": 0, "end_ns": 2 * SECOND, "cpu_s": 0.02,
             "memory_bytes": 3 << 20, "speed": 1000.0}  # fmt: skip
    return Turn(**{**given, **changed})


def test_each_round_begins_with_another_sampler_and_one_that_cannot_run_stops_nobody() -> None:
    everyone = {"none": (), "asleep": ASLEEP, "broken": BROKEN, "missing": ("/no/such/program",)}
    turns, unavailable = take_turns(everyone, 3, turn_s=0.05, settle_s=0.3)
    names = [each.sampler for each in turns]
    assert names == ["none", "asleep", "asleep", "none", "none", "asleep"]
    assert [each.round for each in turns] == [0, 0, 1, 1, 2, 2]
    assert unavailable["broken"] == "ModuleNotFoundError: No module named 'not_there_at_all'"
    assert "No such file" in unavailable["missing"]
    assert all(each.memory_bytes > 1 << 20 for each in turns if each.sampler == "asleep")


def test_a_sampler_and_its_children_end_with_their_turn(tmp_path: Path) -> None:
    code = f"import subprocess; subprocess.run({ASLEEP!r})"
    with running((sys.executable, "-c", code), tmp_path / "log", settle_s=0.5) as processes:
        assert len(processes) == 2
    assert not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in processes)


def test_one_that_ends_during_its_turn_has_none(tmp_path: Path) -> None:
    code = "import sys, time; time.sleep(0.3); sys.exit('no driver')"
    with (
        pytest.raises(UnavailableError, match="no driver"),
        running((sys.executable, "-c", code), tmp_path / "log", settle_s=0.1),
    ):
        time.sleep(0.6)


def test_our_own_sampler_runs_until_it_is_killed(tmp_path: Path) -> None:
    command = (
        sys.executable,
        "-m",
        "benchmarks.samplers",
        "tfbench",
        "--pid",
        str(os.getpid()),
        "--rate-hz",
        "50",
    )
    with running(command, tmp_path / "log", settle_s=2.0) as processes:
        before = cpu_s(processes)
        time.sleep(0.5)
        assert cpu_s(processes) > before
        assert memory_bytes(processes) > 1 << 20


def test_cpu_time_is_the_kernels_and_a_process_that_has_gone_costs_nothing(tmp_path: Path) -> None:
    me = (psutil.Process(),)
    before, mine = cpu_s(me), time.process_time()
    while time.process_time() - mine < 0.05:
        pass
    spent = time.process_time() - mine
    assert cpu_s(me) - before >= spent
    with running(ASLEEP, tmp_path / "log", settle_s=0.1) as gone:
        pass
    assert (cpu_s(gone), memory_bytes(gone)) == (0, 0)


def test_both_of_a_pair_take_turns_at_being_first() -> None:
    order = []

    def timed(name: str, seconds: float) -> float:
        order.append(name)
        return seconds

    assert pairs(partial(timed, "plain", 1.0), partial(timed, "ours", 2.0), 3) == ([1.0] * 3, [2.0] * 3)
    assert order == ["plain", "ours", "ours", "plain", "plain", "ours"]


def test_only_windows_wholly_inside_a_turn_count() -> None:
    windows = [(0, 2, 1000), (2, 4, 10), (4, 6, 30), (6, 9, 1000)]
    assert speed(windows, 2, 8) == pytest.approx(40e9 / 4)
    assert math.isnan(speed([(0, 2, 10)], 1, 9))


def test_slowdown_is_against_the_same_round_and_needs_windows() -> None:
    turns = [
        turn("none", 0), turn("x", 0, speed=800.0), turn("none", 1, speed=500.0), turn("x", 1, speed=400.0),
        turn("y", 0, speed=float("nan")),
    ]  # fmt: skip
    lines = list(table(turns, {"z": "no driver."}))
    assert lines[2:4] == ["| x | +25.00 (+25.00 to +25.00) | 1.00 | 3 |", "| y | - | 1.00 | 3 |"]
    assert lines[-1] == "Left out: z, no driver."
