"""How two shortened runs of a script and one with a remedy are compared."""

import doctest
from dataclasses import replace

import pytest

from workloads.driver import endings
from workloads.driver.endings import Did, Ending, difference


def did(name="evaluate", form="", **values):
    return Did(name=name, place="line 9", form=form, values=values)


def printed(*lines):
    return Ending(printed=lines)


def test_its_examples():
    assert doctest.testmod(endings).failed == 0


@pytest.mark.parametrize(
    ("own", "written", "said"),
    [
        (
            Ending(error="train.py, line 12: KeyError: 'a'"),
            Ending(error="train.py, line 9: KeyError: 'a'"),
            "",
        ),
        (Ending(error="KeyError"), Ending(error="ValueError"), "fails: KeyError"),
        (Ending(), Ending(error="ValueError"), "no longer ends with its error"),
        (Ending(error="KeyError"), Ending(whole=False), ""),
        (Ending(whole=False), Ending(error="KeyError"), ""),
        (Ending(calls=[did(loss=0.5)]), Ending(calls=[did(loss=0.7)]), "loss 0.5; as written, 0.7"),
        (Ending(calls=[did()]), Ending(calls=[did(loss=0.7)]), "loss nan"),
        (Ending(calls=[did(loss=0.7004)]), Ending(calls=[did(loss=0.7)]), ""),
        (Ending(calls=[did("fit", steps=92)]), Ending(calls=[did("fit", steps=96)]), "steps 92"),
        (Ending(calls=[did("predict", "(8, 2)")]), Ending(calls=[did("predict", "(9, 2)")]), "other shapes"),
        (Ending(calls=[did("predict", "(8, 2)")], even=False), Ending(calls=[did("predict", "(9, 2)")]), ""),
        (
            Ending(calls=[did("predict", "(8, 2)")], even=False),
            Ending(calls=[did("predict", "(8, 3)")]),
            "other shapes",
        ),
        (Ending(calls=[did("predict")]), Ending(calls=[did("evaluate")]), "calls predict where"),
        (Ending(calls=[did()]), Ending(calls=[did(), did()]), "1 calls"),
        (Ending(files={"a": []}), Ending(files={"a": [], "b": []}), "does not write b"),
        (Ending(files={"a": [], "b": []}), Ending(files={"a": []}), ""),
        (Ending(files={"a": ["0"]}), Ending(files={"a": ["0.05"]}), 'writes "0" to a; as written, "0.05"'),
        (Ending(files={"a": ["0"]}), Ending(files={"a": ["0", "1"]}), "writes 1 lines to a"),
        (printed("loss 0.50"), printed("loss 0.70"), 'prints "loss 0.50"; as written, "loss 0.70"'),
        (printed("loss 0.7001"), printed("loss 0.7002"), ""),
        (printed("good"), printed("bad"), "later prints"),
        (printed("a"), printed("a", "b"), "prints 1 lines"),
        (printed("['b', 'a']"), printed("['a', 'b']"), ""),
        (printed("<f at 0x7f00>, 12:30"), printed("<f at 0x7e11>, 12:31"), ""),
        (replace(printed("good"), even=False), printed("bad"), ""),
        (replace(Ending(calls=[did(loss=0.5)]), even=False), Ending(calls=[did(loss=0.7)]), ""),
        (printed("loss nan"), printed("loss nan"), ""),
    ],
)
def test_what_differs_from_both_runs_as_written_is_said(own, written, said):
    result = difference(own, written, written)
    assert said in result if said else not result


@pytest.mark.parametrize(
    ("own", "first", "second"),
    [
        (Ending(error="KeyError"), Ending(), Ending(error="ValueError")),
        (Ending(calls=[did(loss=0.1)]), Ending(calls=[did(loss=0.5)]), Ending(calls=[did(loss=0.6)])),
        tuple(Ending(calls=[did("predict", form)]) for form in ("(1,)", "(2,)", "(3,)")),
        (printed("took 1.2 s"), printed("took 2.3 s"), printed("took 6.9 s")),
        (printed("c", "x"), printed("a", "x"), printed("b", "x")),
        (Ending(), Ending(files={"run-1": []}), Ending(files={"run-2": []})),
    ],
)  # fmt: skip
def test_what_differs_from_run_to_run_tells_nothing(own, first, second):
    assert difference(own, first, second) == ""


def test_a_file_of_another_size_is_told_unless_calls_stop_elsewhere():
    def of(size, **more):
        return Ending(files={"a.bin": []}, sizes={"a.bin": size}, **more)

    assert "writes 800 bytes to a.bin; as written, 400." in difference(of(800), of(400), of(400), exact=False)
    assert difference(of(420), of(400), of(400)) == difference(of(800), of(400), of(410)) == ""
    assert difference(of(800, even=False), of(400), of(400)) == ""


def test_long_lines_are_quoted_where_they_differ():
    long = "loss 1 " * 40
    said = difference(printed(f"{long}steps 10"), *[printed(f"{long}steps 1")] * 2)
    assert 'steps 10"; as written, "…' in said and said.endswith('steps 1".') and len(said) < 300


def test_what_follows_a_line_that_never_repeats_is_compared():
    runs = [printed(f"run {name}", f"loss {loss}") for name, loss in (("a", 0.5), ("b", 0.7), ("c", 0.7))]
    assert "loss 0.5" in difference(*runs)


def test_what_a_remedy_may_change_by_its_own_text_is_not_compared():
    own, written = (
        Ending(calls=[did(loss=0.5)], printed=["a"]),
        Ending(calls=[did(loss=0.7)], printed=["b"]),
    )
    assert difference(own, written, written, exact=False) == ""
    rounded = difference(
        printed("right 98 of 100", "right 98"), *[printed("right 97 of 100", "right 97")] * 2, exact=False
    )
    assert rounded == ""
    steps = (printed("student (128, 0.5)"), *[printed("student (1024, 0.7)")] * 2)
    assert difference(*steps, exact=False) == ""
    assert "1024" in difference(replace(steps[0], times=8), *steps[1:], exact=False)
    assert "errors 0" in difference(printed("errors 0"), *[printed("errors 7")] * 2, exact=False)
    assert difference(printed("loss 0.0"), *[printed("loss 0.1")] * 2, exact=False) == ""
    written = Ending(calls=[did(loss=0.7)], printed=["b"])
    files = replace(written, files={"b": ["1"]}, printed=["b", "b"])
    assert difference(written, files, files, acts=False) == ""
    exits = Ending(error="sys.exit(3)")
    assert difference(Ending(), exits, exits, exact=False) == ""
    assert "fails: sys.exit(3)" in difference(exits, Ending(), Ending(), exact=False)
    assert 'prints "a"' in difference(replace(own, calls=written.calls), written, written, acts=False)
