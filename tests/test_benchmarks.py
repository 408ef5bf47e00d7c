"""The benchmarks of the harness itself: what they count and leave out, without engine and GPU."""

import math
import os
import sys
import time
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.longrun import lengthened
from benchmarks.peers.answering import Point, summed
from benchmarks.peers.ours import seen
from benchmarks.processes import Command, LeftOutError, Nobody, Peer, cpu_s, memory_bytes
from benchmarks.rendering import source
from benchmarks.sampling import Turn, speed, take_turns
from benchmarks.sampling_table import table
from benchmarks.starting import pairs
from harness.analysis import analyse
from harness.model.run import Series, Status
from harness.run.store import read_run
from tests.builders import cpu_run, gpu_run
from tests.folders import write_run

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


class FakeSampler(Nobody):
    def __init__(self, name, told, fails_at=""):
        self.name, self.told, self.fails_at = name, told, fails_at

    def _do(self, word):
        self.told.append((self.name, word))
        if word == self.fails_at:
            raise LeftOutError(f"no {word}")

    def load(self):
        self._do("load")

    def on(self):
        self._do("on")

    def begin(self):
        self._do("begin")

    def end(self):
        self._do("end")

    def off(self):
        self._do("off")
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
        "memory_bytes": 3 << 20, "counter_j": None, "seen": {}, "speed": 1000.0,
    }  # fmt: skip
    return Turn(**{**given, **changed})


class TestTurns:
    def take(self, rounds, **fails):
        told = []
        everyone = {name: FakeSampler(name, told, fails.get(name, "")) for name in ("none", "a", "b")}
        turns, left_out = take_turns(everyone, rounds, 0.02, FakeCounter(), settle_s=0.0)
        return turns, left_out, told

    def test_each_round_begins_with_another_sampler(self):
        turns, left_out, _ = self.take(3)
        assert [one.sampler for one in turns] == ["none", "a", "b", "a", "b", "none", "b", "none", "a"]
        assert [one.round for one in turns] == [0] * 3 + [1] * 3 + [2] * 3
        assert left_out == {}

    def test_the_counter_is_read_around_the_turn(self):
        turns, _, _ = self.take(1)
        for one in turns:
            assert one.counter_j >= 300 * one.seconds
            assert one.seconds >= 0.02

    def test_one_that_is_not_installed_takes_no_turn_and_stops_nobody(self):
        turns, left_out, told = self.take(2, a="load")
        assert {one.sampler for one in turns} == {"none", "b"}
        assert left_out == {"a": "no load"}
        assert ("a", "on") not in told

    def test_one_that_fails_later_keeps_no_turn_and_is_asked_no_more(self):
        turns, left_out, told = self.take(2, b="off")
        assert {one.sampler for one in turns} == {"none", "a"}
        assert left_out == {"b": "no off"}
        assert told.count(("b", "on")) == 1

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
            turn("none", 0, speed=1000.0), turn("x", 0, speed=800.0, seen={"samples": 20}),
            turn("none", 1, speed=500.0), turn("x", 1, speed=400.0, seen={"samples": 20}),
        ]  # fmt: skip
        cells = self.row(table("title", turns, {}, "none"), "x")
        assert cells == ["x", "+25.00 (+25.00 to +25.00)", "1.00", "1,000", "3"]

    def test_energy_is_held_against_the_counter_of_the_same_turn(self):
        turns = [
            turn("none", 0, counter_j=600.0),
            turn("x", 0, counter_j=600.0, seen={"energy_j": 630.0, "util_pct": 40.0, "samples": 20}),
            turn("y", 0, counter_j=600.0, seen={"energy_j": None, "util_pct": None, "samples": 20}),
        ]
        lines = table("title", turns, {"z": "not installed (no module z)"}, "none")
        assert self.row(lines, "x")[5:] == ["40.0", "630.0", "600.0", "+5.00 (+5.00 to +5.00)"]
        assert self.row(lines, "y")[5:] == ["-", "-", "600.0", "-"]
        assert lines[-1] == "Left out: z, not installed (no module z)."

    def test_a_turn_without_windows_has_no_slowdown(self):
        turns = [turn("none", 0), turn("x", 0, speed=float("nan"))]
        assert self.row(table("title", turns, {}, "none"), "x")[1] == "-"


class TestProcesses:
    def test_our_own_sampler_in_its_process(self, tmp_path):
        peer = Peer(
            sys.executable, "ours", ["--pid", str(os.getpid()), "--folder", str(tmp_path), "--rate", "50"],
            tmp_path / "log",
        )  # fmt: skip
        try:
            peer.load()
            peer.on()
            time.sleep(0.2)
            peer.begin()
            before = cpu_s(peer.pids())
            time.sleep(0.5)
            assert cpu_s(peer.pids()) > before
            assert memory_bytes(peer.pids()) > 1 << 20
            peer.end()
            answer = peer.off()
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
                peer.on()
                peer.begin()
                began = time.monotonic()
                time.sleep(0.4)
                shortest = time.monotonic() - began
                peer.end()
                longest = time.monotonic() - began
                answer = peer.off()
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
            with pytest.raises(LeftOutError, match=words):
                peer.load()
        finally:
            peer.close()

    def test_an_interpreter_that_is_not_there(self, tmp_path):
        with pytest.raises(LeftOutError, match="No such file"):
            Peer(str(tmp_path / "python"), "nvitop", [], tmp_path / "log").load()

    def test_a_command_is_ended(self):
        command = Command("sleep", "600")
        command.on()
        (pid,) = command.pids()
        command.off()
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


class TestSeen:
    def test_constant_power_between_and_beyond_readings(self):
        points = [Point(SECOND * t // 10, 50.0, 200.0) for t in range(2, 9)]
        assert summed(points, 0, SECOND) == {"samples": 7, "util_pct": 50.0, "energy_j": pytest.approx(200)}

    def test_a_ramp_is_integrated(self):
        points = [Point(SECOND * t, 0.0, 100.0 * t) for t in range(5)]
        assert summed(points, SECOND, 3 * SECOND)["energy_j"] == pytest.approx(400)

    def test_no_reading_is_nothing_seen(self):
        assert summed([], 0, SECOND) == {"samples": 0, "util_pct": None, "energy_j": None}

    def test_the_counter_is_interpolated_at_the_edges(self):
        t_ns = np.arange(0, 5 * SECOND, SECOND, dtype=np.int64)
        columns = {"energy_j": np.arange(5) * 300.0, "gpu_util_pct": np.array([0.0, 50, 70, np.nan, 0])}
        card = Series(source="nvml", device="gpu0", t_ns=t_ns, columns=columns)
        answer = seen((card,), SECOND // 2, 3 * SECOND)
        assert answer["energy_j"] == pytest.approx(750)
        assert answer["util_pct"] == 60
        assert seen((card,), 0, 9 * SECOND)["energy_j"] is None


class TestLongRun:
    def test_a_trial_is_made_long_and_wide(self):
        run = gpu_run(trials=2)
        trial = max((one for one in run.trials if one.device == "gpu0"), key=lambda one: one.ended_ns)
        made = lengthened(run, 600, 8)
        (long,) = made.trials
        assert long.device == "+".join(f"gpu{place}" for place in range(8))
        assert (long.ended_ns - long.started_ns) / 1e9 == pytest.approx(600, rel=0.05)
        assert len(made.manifest.gpus) == 8
        assert len({card.uuid for card in made.manifest.gpus}) == 8
        assert len(long.windows) % len(trial.windows) == 0
        for variant in {window.variant for window in long.windows}:
            mine = [window for window in long.windows if window.variant == variant]
            assert [one.index for one in mine] == list(range(len(mine)))
            assert all(a.end_ns <= b.start_ns for a, b in pairwise(mine))
        for place in range(8):
            mine = [series for series in long.telemetry if series.device == f"gpu{place}"]
            assert all((np.diff(series.t_ns) >= 0).all() for series in mine)
            assert max(len(series.t_ns) for series in mine) > 5000
            (energy,) = [series.columns["energy_j"] for series in mine if "energy_j" in series.columns]
            assert (np.diff(energy[np.isfinite(energy)]) >= 0).all()

    def test_it_is_a_run_that_can_be_written_read_and_analysed(self, tmp_path):
        run = lengthened(gpu_run(trials=1), 60, 2)
        write_run(tmp_path / "run", run)
        analysis = analyse(read_run(tmp_path / "run"))
        assert {summary.device for summary in analysis.summaries} == {"gpu0+gpu1"}

    def test_a_recording_is_used_where_there_is_one(self, tmp_path):
        write_run(tmp_path / "recording", gpu_run(trials=1))
        _, origin = source(tmp_path / "recording")
        assert origin == "made of recording"

    def test_a_recording_without_a_gpu_is_refused(self):
        with pytest.raises(ValueError, match="no trial on a GPU"):
            lengthened(cpu_run(trials=1))
        failed = gpu_run(trials=1)
        trials = tuple(replace(one, status=Status.FAILED) for one in failed.trials)
        with pytest.raises(ValueError, match="no trial on a GPU"):
            lengthened(replace(failed, trials=trials))
