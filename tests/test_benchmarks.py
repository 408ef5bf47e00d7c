"""The benchmarks of the harness itself: what they count and leave out, without engine and GPU."""

import math
import os
import sys
import time
from functools import partial

import numpy as np
import pytest

from benchmarks.peers.nvitop import Sample, summarise
from benchmarks.peers.ours import observed
from benchmarks.processes import Command, NoSampler, Peer, UnavailableError, cpu_s, memory_bytes
from benchmarks.sampling import Turn, speed, table, take_turns
from benchmarks.starting import pairs
from harness.model.run import Series

pytestmark = pytest.mark.slow

SECOND = 1_000_000_000

NVITOP = """
from types import SimpleNamespace
class Device:
    def __init__(self, index): self.index = index
    def utilization_rates(self): return SimpleNamespace(gpu=40, memory=3)
    def memory_info(self): return None
    def power_usage(self): return 250000
    def temperature(self): return 50
    def clock_infos(self): return None
"""


class FakeSampler(NoSampler):
    def __init__(self, name, told, fails_at=""):
        self.name, self.told, self.fails_at = name, told, fails_at

    def _do(self, word):
        self.told.append((self.name, word))
        if word == self.fails_at:
            raise UnavailableError(f"no {word}")

    def load(self):
        self._do("load")

    def start(self):
        self._do("start")

    def begin(self):
        self._do("begin")

    def end(self):
        self._do("end")

    def stop(self):
        self._do("stop")
        return {"samples": 10.0}

    def close(self):
        self.told.append((self.name, "close"))


class FakeCounter:
    """A GPU that draws 300 W."""

    def __call__(self):
        return time.monotonic() * 300


def turn(sampler, number, **changed):
    given = {
        "sampler": sampler, "round": number, "start_ns": 0, "end_ns": 2 * SECOND, "cpu_s": 0.02,
        "memory_bytes": 3 << 20, "counter_j": None, "observed": {}, "speed": 1000.0,
    }  # fmt: skip
    return Turn(**{**given, **changed})


class TestTurns:
    def take(self, rounds, **fails):
        told = []
        everyone = {name: FakeSampler(name, told, fails.get(name, "")) for name in ("none", "a", "b")}
        turns, unavailable = take_turns(everyone, rounds, 0.02, FakeCounter(), settle_s=0.0)
        return turns, unavailable, told

    def test_each_round_begins_with_another_sampler(self):
        turns, unavailable, _ = self.take(3)
        assert [one.sampler for one in turns] == ["none", "a", "b", "a", "b", "none", "b", "none", "a"]
        assert [one.round for one in turns] == [0] * 3 + [1] * 3 + [2] * 3
        assert unavailable == {}

    def test_the_counter_is_read_around_the_turn(self):
        turns, _, _ = self.take(1)
        for one in turns:
            assert one.counter_j >= 300 * one.seconds
            assert one.seconds >= 0.02

    def test_one_that_is_not_installed_takes_no_turn_and_stops_nobody(self):
        turns, unavailable, told = self.take(2, a="load")
        assert {one.sampler for one in turns} == {"none", "b"}
        assert unavailable == {"a": "no load"}
        assert ("a", "start") not in told

    def test_one_that_fails_later_keeps_no_turn_and_is_asked_no_more(self):
        turns, unavailable, told = self.take(2, b="stop")
        assert {one.sampler for one in turns} == {"none", "a"}
        assert unavailable == {"b": "no stop"}
        assert told.count(("b", "start")) == 1

    def test_all_are_closed_even_when_the_benchmark_breaks(self):
        told = []

        def broken():
            raise OSError("gone")

        with pytest.raises(OSError, match="gone"):
            take_turns({"a": FakeSampler("a", told)}, 1, 0.0, broken, settle_s=0.0)
        assert told[-1] == ("a", "close")


def test_both_of_a_pair_take_turns_at_being_first():
    order = []

    def timed(name, seconds):
        order.append(name)
        return seconds

    found = pairs(partial(timed, "plain", 1.0), partial(timed, "ours", 2.0), 3)
    assert order == ["plain", "ours", "ours", "plain", "plain", "ours"]
    assert found == ([1.0] * 3, [2.0] * 3)


class TestSpeed:
    def test_only_windows_wholly_inside_count(self):
        windows = [(0, 2, 1000), (2, 4, 10), (4, 6, 30), (6, 9, 1000)]
        assert speed(windows, 2, 8) == pytest.approx(40e9 / 4)

    def test_none_inside_is_not_a_number(self):
        assert math.isnan(speed([(0, 2, 10)], 1, 9))


class TestTable:
    def row(self, lines, name):
        (found,) = [line for line in lines if line.startswith(f"| {name} ")]
        return [cell.strip() for cell in found.strip("|").split("|")]

    def test_slowdown_is_against_the_same_round(self):
        turns = [
            turn("none", 0, speed=1000.0), turn("x", 0, speed=800.0, observed={"samples": 20}),
            turn("none", 1, speed=500.0), turn("x", 1, speed=400.0, observed={"samples": 20}),
        ]  # fmt: skip
        cells = self.row(list(table(turns, {})), "x")
        assert cells == ["x", "+25.00 (+25.00 to +25.00)", "1.00", "1,000", "3"]

    def test_energy_is_held_against_the_counter_of_the_same_turn(self):
        turns = [
            turn("none", 0, counter_j=600.0),
            turn("x", 0, counter_j=600.0, observed={"energy_j": 630.0, "util_pct": 40.0, "samples": 20}),
            turn("y", 0, counter_j=600.0, observed={"energy_j": None, "util_pct": None, "samples": 20}),
        ]
        lines = list(table(turns, {"z": "not installed (no module z)"}))
        assert self.row(lines, "x")[5:] == ["40.0", "630.0", "600.0", "+5.00 (+5.00 to +5.00)"]
        assert self.row(lines, "y")[5:] == ["-", "-", "600.0", "-"]
        assert lines[-1] == "Left out: z, not installed (no module z)."

    def test_a_turn_without_windows_has_no_slowdown(self):
        turns = [turn("none", 0), turn("x", 0, speed=float("nan"))]
        assert self.row(list(table(turns, {})), "x")[1] == "-"


class TestProcesses:
    def test_our_own_sampler_in_its_process(self, tmp_path):
        peer = Peer(
            sys.executable, "ours", ["--pid", str(os.getpid()), "--folder", str(tmp_path), "--rate-hz", "50"],
            tmp_path / "log",
        )  # fmt: skip
        try:
            peer.load()
            peer.start()
            time.sleep(0.2)
            peer.begin()
            before = cpu_s(peer.pids())
            time.sleep(0.5)
            assert cpu_s(peer.pids()) > before
            assert memory_bytes(peer.pids()) > 1 << 20
            peer.end()
            answer = peer.stop()
        finally:
            peer.close()
        assert answer["samples"] > 0
        assert answer["energy_j"] is None
        assert answer["util_pct"] is None
        assert peer.pids() == ()

    def peer(self, tmp_path, monkeypatch, code):
        (tmp_path / "nvitop.py").write_text(code)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        return Peer(sys.executable, "nvitop", ["--gpu", "0"], tmp_path / "log")

    def test_a_library_that_is_read_in_a_loop(self, tmp_path, monkeypatch):
        peer = self.peer(tmp_path, monkeypatch, NVITOP)
        try:
            peer.load()
            for _ in range(2):
                peer.start()
                peer.begin()
                began = time.monotonic()
                time.sleep(0.4)
                shortest = time.monotonic() - began
                peer.end()
                longest = time.monotonic() - began
                answer = peer.stop()
                assert answer["util_pct"] == 40
                assert answer["samples"] >= 1
                assert 250 * shortest <= answer["energy_j"] <= 250 * (longest + 0.1)
        finally:
            peer.close()

    @pytest.mark.parametrize(
        ("code", "words"),
        [
            ("import not_there_at_all", "not installed .no module not_there_at_all"),
            (
                "class Device:\n    def __init__(self, index): raise OSError('no driver')",
                "load: OSError: no dr",
            ),
            ("import os, sys; sys.stderr.write('bad wheel'); sys.stderr.flush(); os._exit(3)", "bad wheel"),
            ("print('hello')", "AttributeError"),
        ],
    )
    def test_one_that_cannot_take_part_says_why(self, tmp_path, monkeypatch, code, words):
        peer = self.peer(tmp_path, monkeypatch, code)
        try:
            with pytest.raises(UnavailableError, match=words):
                peer.load()
        finally:
            peer.close()

    def test_an_interpreter_that_is_not_there(self, tmp_path):
        with pytest.raises(UnavailableError, match="No such file"):
            Peer(str(tmp_path / "python"), "nvitop", [], tmp_path / "log").load()

    def test_a_command_is_ended(self):
        command = Command("sleep", "600")
        command.start()
        (pid,) = command.pids()
        command.stop()
        assert command.pids() == ()
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)

    def test_processor_time_is_the_kernels(self):
        before, mine = cpu_s([os.getpid()]), time.process_time()
        while time.process_time() - mine < 0.05:
            pass
        spent = time.process_time() - mine
        assert cpu_s([os.getpid()]) - before >= spent

    def test_a_process_that_has_gone_costs_nothing(self):
        assert cpu_s([2**22 - 1]) == 0
        assert memory_bytes([2**22 - 1]) == 0


class TestObserved:
    def test_constant_power_between_and_beyond_readings(self):
        samples = [Sample(SECOND * t // 10, 50.0, 200.0) for t in range(2, 9)]
        assert summarise(samples, 0, SECOND) == {
            "samples": 7,
            "util_pct": 50.0,
            "energy_j": pytest.approx(200),
        }

    def test_a_ramp_is_integrated(self):
        samples = [Sample(SECOND * t, 0.0, 100.0 * t) for t in range(5)]
        assert summarise(samples, SECOND, 3 * SECOND)["energy_j"] == pytest.approx(400)

    def test_no_reading_is_nothing_seen(self):
        assert summarise([], 0, SECOND) == {"samples": 0, "util_pct": None, "energy_j": None}

    def test_the_counter_is_interpolated_at_the_edges(self):
        t_ns = np.arange(0, 5 * SECOND, SECOND, dtype=np.int64)
        columns = {"energy_j": np.arange(5) * 300.0, "gpu_util_pct": np.array([0.0, 50, 70, np.nan, 0])}
        card = Series(source="nvml", device="gpu0", t_ns=t_ns, columns=columns)
        answer = observed((card,), SECOND // 2, 3 * SECOND)
        assert answer["energy_j"] == pytest.approx(750)
        assert answer["util_pct"] == 60
        assert observed((card,), 0, 9 * SECOND)["energy_j"] is None
