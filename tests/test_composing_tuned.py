"""Tuned is made of remedies by what they gain: each in readings whose speeds are planned here, without a framework."""

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from workloads.driver.endings import Ending
from workloads.driver.processes import End
from workloads.driver.results import Results, ResultsFile
from workloads.driver.trial import Task, Trial
from workloads.protocol import Aim, Edit, EventWriter, Fix, Script, Spec, read_events
from workloads.variants import BASELINE, FIXES, MODEL_ONLY, TUNED, together

A, B, C = "fix:a", "fix:b", "fix:c"
AB = together((A, B))
# Seconds from one reading to the next.
APART_S = 10.0
DIES, REFUSED = 0.0, -1.0
# How a shortened run of the whole script ends whose process dies.
DIED = "died"
# How many times as fast as the baseline the readings of a variant are, in order; the last is repeated.
Plan = Mapping[str, Sequence[float]]
Compose = Callable[..., list[dict[str, Any]]]


class Planned:
    """Does tasks by writing what a reading would."""

    def __init__(self, path: Path, plan: Plan, slower: float, failing: Mapping[str, str]) -> None:
        self._path = path
        self._failing = failing
        self._plan = plan
        self._slower = slower

    def work(self, task: Task, spec: Spec, events: EventWriter, results: Results, end: End) -> None:
        before = self._path.read_text(encoding="utf-8")
        name = together(task.fixes) if task.fixes else BASELINE
        if task.rehearses:
            events.write("process", script=task.script)
            error = self._failing.get(name, "")
            if error == DIED:
                os.kill(os.getpid(), signal.SIGKILL)
            nothing = asdict(Ending(calls=[], printed=[], files={}, error=error))
            events.write("ending", variant=name, **nothing)
            return
        plan = self._plan.get(name, (1.0,))
        (variant, *parts) = task.variants
        for part in parts:
            events.write("reading", variant=part)
            events.write(
                "window", variant=part, index=0, start_ns=0, end_ns=round(1e9 / self._plan[part][0]), steps=10,
                samples=320, wait_ns=-1,
            )  # fmt: skip
        events.write("reading", variant=variant)
        # Tuned is the same script under another name.
        number = sum(results.begun_count(each) for each in {name, variant}) - 1
        times = plan[min(number, len(plan) - 1)]
        if times == DIES:
            os.kill(os.getpid(), signal.SIGKILL)
        if times == REFUSED:
            events.write("judged", variant=A, reason="It draws.")
            events.left_out(variant, "It draws.")
            return
        at = before.count('"reading"')
        length_s = self._slower**at / times
        middle_s = (at + 1) * APART_S
        events.write("script", variant=variant, diff="", text="", fixes=list(task.fixes))
        events.write(
            "window", variant=variant, index=0, start_ns=round((middle_s - length_s / 2) * 1e9),
            end_ns=round((middle_s + length_s / 2) * 1e9), steps=10, samples=320, wait_ns=-1,
        )  # fmt: skip


@pytest.fixture
def compose(tmp_path: Path) -> Compose:
    """Run a trial of the baseline, the remedies a, b and c, and tuned; return its events.

    In a process of its own, because a trial kills every descendant of its process.
    """

    def run(
        plan: Plan,
        *,
        slower: float = 1.0,
        aims: Mapping[str, Aim] | None = None,
        failing: Mapping[str, str] = MappingProxyType({}),
        **fields: Any,
    ) -> list[dict[str, Any]]:
        fixes = {
            name: Fix(edits=(Edit(start=0, end=0, text=name),), aim=(aims or {}).get(name, Aim.INPUT))
            for name in ({A: "", B: "", C: ""} | dict(aims or {}))
        }
        spec = Spec(
            scripts={BASELINE: Script(path="/train.py", text="")},
            **{"fixes": fixes, "variants": (BASELINE, FIXES, TUNED), **fields},
        )
        path = tmp_path / "events.jsonl"
        with path.open("w", encoding="utf-8") as file:
            if (child := os.fork()) == 0:
                code = 1
                try:
                    work = Planned(path, plan, slower, failing).work
                    Trial(spec, EventWriter(file), ResultsFile(path), work, [sys.executable]).run()
                    code = 0
                finally:
                    os._exit(code)
            assert os.waitpid(child, 0)[1] == 0
        with path.open(encoding="utf-8") as lines:
            return list(read_events(lines))

    return run


def tuned(events: list[dict[str, Any]]) -> tuple[str, ...]:
    """Return the remedies of tuned; () if it is needless, with one of both."""
    needless = [each for each in events if each["kind"] == "needless" and each["variant"] == TUNED]
    scripts = [each for each in events if each["kind"] == "script" and each["variant"] == TUNED]
    assert len(needless) + len(scripts) == 1
    return tuple(scripts[0]["fixes"]) if scripts else ()


def readings(events: list[dict[str, Any]]) -> list[str]:
    return [each["variant"] for each in events if each["kind"] == "reading"]


def test_remedies_that_gain_together_are_tuned(compose):
    events = compose({A: [1.5], B: [1.3], AB: [1.9]})
    assert tuned(events) == (A, B)
    assert readings(events).count(AB) >= 2
    assert readings(events)[-2:] == [TUNED, BASELINE], "tuned is between readings of the baseline"
    assert readings(events).count(C) == 1, "what does not gain is read once"


@pytest.mark.parametrize(
    ("both", "result"),
    [
        ([1.52], (A,)),  # too little for what it changes
        ([2.0, 1.0], (A,)),  # one lucky reading
        ([DIES], (A,)),
        ([1.7, DIES], (A,)),
    ],
)
def test_a_combination_is_tuned_only_if_it_is_faster_than_its_best_part(compose, both, result):
    assert tuned(compose({A: [1.5], B: [1.3], AB: both})) == result


def test_a_lucky_first_reading_is_corrected_by_the_second(compose):
    events = compose({A: [2.0, 1.1], B: [1.5], AB: [1.0]})
    assert tuned(events) == (B,)
    assert min(map(readings(events).count, (A, B))) == 2


@pytest.mark.parametrize("plan", [{}, {A: [1.04], B: [0.8]}, {A: [1.06, 1.0]}, {A: [DIES], B: [DIES]}])
def test_without_a_gain_tuned_is_needless(compose, plan):
    events = compose(plan)
    assert tuned(events) == ()
    assert TUNED not in readings(events)


@pytest.mark.parametrize("slower", [0.8, 1.25])
def test_a_machine_that_changes_steadily_gains_nothing_and_hides_nothing(compose, slower):
    assert tuned(compose({}, slower=slower)) == ()
    assert tuned(compose({B: [1.2]}, slower=slower)) == (B,)
    assert tuned(compose({A: [1.25], B: [1.2], AB: [1.5]}, slower=slower)) == (A, B)


def test_a_remedy_that_dies_leaves_the_others(compose):
    events = compose({A: [DIES], B: [1.3]})
    assert tuned(events) == (B,)
    (left_out,) = [each for each in events if each["kind"] == "left-out"]
    assert left_out["variant"] == A and "SIGKILL" in left_out["reason"]


def test_a_larger_batch_is_tried_only_if_nothing_else_gains_and_is_never_tuned(compose):
    aims = {A: Aim.INPUT, B: Aim.BATCH}
    assert B not in readings(compose({A: [1.5], B: [3.0]}, aims=aims))
    events = compose({B: [3.0]}, aims=aims)
    assert B in readings(events)
    assert tuned(events) == ()


def test_two_ways_to_the_same_end_are_not_combined(compose):
    one, other = "fix:steps-per-execution", "fix:many-steps"
    events = compose(
        {one: [1.6], other: [1.5], together((one, other)): [9.0]}, aims={one: Aim.INPUT, other: Aim.INPUT}
    )
    assert tuned(events) == (one,)
    assert together((one, other)) not in readings(events)


def test_later_trials_measure_the_tuned_that_was_found(compose):
    events = compose({AB: [1.9]}, variants=(BASELINE, TUNED), tuned=(A, B))
    assert readings(events) == [BASELINE, TUNED]
    assert tuned(events) == (A, B)
    assert tuned(compose({A: [1.5]}, variants=(BASELINE, TUNED), tuned=())) == ()


def test_only_remedies_of_the_measured_calls_are_read(compose):
    elsewhere = Fix(edits=(Edit(start=0, end=0, text="x", site=(9, 9)),), aim=Aim.INPUT)
    events = compose({A: [5.0]}, fixes={A: elsewhere})
    assert readings(events) == [BASELINE]
    assert tuned(events) == ()


@pytest.mark.parametrize(("model", "count"), [(0.8, 2), (0.95, 1), (1.3, 1)])
def test_a_baseline_that_is_faster_than_its_model_is_read_again(compose, model, count):
    events = compose({MODEL_ONLY: [model]}, variants=(BASELINE, MODEL_ONLY))
    assert readings(events).count(BASELINE) == count


def test_tasks_are_the_same_in_a_fresh_interpreter():
    task = Task(script=BASELINE, variants=(BASELINE, "model-only"), fixes=(A, B), short=True)
    assert Task.of(task.text()) == task
    assert json.loads(task.text())["fixes"] == [A, B]


@pytest.mark.parametrize("error", ["AttributeError: numpy", DIED])
def test_a_remedy_with_which_the_rest_of_the_script_fails_is_none(compose, error):
    events = compose({A: [1.5], B: [1.3], AB: [1.9]}, failing={A: error, AB: error})
    assert tuned(events) == (B,)
    (refused,) = (each for each in events if each["kind"] == "judged" and each["reason"])
    assert refused["variant"] == A and "fails" in refused["reason"]
    assert readings(events).count(AB) == 0


@pytest.mark.parametrize(
    "plan", [{A: [3.0, REFUSED]}, {A: [3.0], AB: [3.5, REFUSED]}, {A: [3.0], AB: [REFUSED]}]
)
def test_a_remedy_that_any_reading_refuses_is_in_no_script(compose, plan):
    assert tuned(compose({B: [1.3], **plan})) == (B,)


def test_remedies_that_fail_together_only_are_tuned_apart(compose):
    assert tuned(compose({A: [1.5], B: [1.3], AB: [1.9]}, failing={AB: "ValueError"})) == (A,)


def test_what_gains_beside_some_readings_of_the_baseline_only_is_tried_too(compose):
    """Which of them count is not known yet."""
    events = compose({BASELINE: [1.0, 0.9], A: [1.5], C: [0.97]}, failing={C: "ValueError"})
    reasons = {each["variant"]: each["reason"] for each in events if each["kind"] == "judged"}
    assert reasons.keys() == {A, B, C} and "ValueError" in reasons[C]


def test_a_script_that_fails_anyway_may_fail(compose):
    failing = dict.fromkeys((BASELINE, A), "IndexError: 50")
    assert tuned(compose({A: [1.5]}, failing=failing)) == (A,)


def test_what_an_earlier_trial_found_of_the_rest_is_not_run_again(compose):
    events = compose({A: [1.5], B: [1.3]}, judged={A: "It fails.", B: ""})
    assert tuned(events) == (B,)
    assert not any(each["kind"] in ("ending", "judged") for each in events)
    assert [each["reason"] for each in events if each["kind"] == "left-out"] == ["It fails."]
    assert A not in readings(events)
