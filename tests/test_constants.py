import ast
from dataclasses import replace

import pytest

from harness.errors import UsageError
from harness.model.workload import Rung
from harness.run.scripts import check_params, constants, params_for, script_text, with_values
from tests.builders import small_workload


def found(text: str) -> dict[str, object]:
    return constants(ast.parse(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A = 1\nB = -1.5\nC = 'x'\nD = True\nE = None\nF = (1, 'a')\nG = [1, 2]\nH: int = 3",
         {"A": 1, "B": -1.5, "C": "x", "D": True, "E": None, "F": (1, "a"), "G": (1, 2), "H": 3}),
        ("a = 1; B = 2", {"a": 1, "B": 2}),
        ("A = 1\nA = 2", {"A": 2}),
        ("A = 1\nA = 2 * A", {}),
        ("_A = 1\nA = B = 1\nA += 1\nC: int\nD, E = 1, 2\n(F := 3)", {}),
        ("A = 8 * 4\nB = len('x')\nC = {1: 2}\nD = {1}\nE = b'x'\nF = 1j\nG = ...\nH = ((1,), 2)", {}),
        ("if True:\n    A = 1\ndef f():\n    B = 2\nclass C:\n    D = 3", {}),
        ("A = 1e400\nB = 10**400\nC = 9007199254740993\nD = 9007199254740992", {"D": 9007199254740992}),
        (f"A = '{'x' * 1000}'\nB = '{'x' * 1001}'", {"A": "x" * 1000}),
    ],
)  # fmt: skip
def test_names_at_the_top_that_hold_literals(text: str, expected: dict[str, object]) -> None:
    assert found(text) == expected


@pytest.mark.parametrize(
    ("before", "values", "after"),
    [
        ("A = 32  # samples\n", {"A": 64}, "A = 64  # samples\n"),
        ("A=32;B = 'x'\n", {"A": 1, "B": "y"}, "A=1;B = 'y'\n"),
        ("A: float = 1e-3\n", {"A": 0.1}, "A: float = 0.1\n"),
        ("A\t=\t3\t# tab\n", {"A": 4}, "A\t=\t4\t# tab\n"),
        (
            "A = [\n    1,\n    2,  # two\n]  # end\nB = 1\n",
            {"A": (3, 4)},
            "A = (3, 4)  # end\n\n\n\nB = 1\n",
        ),
        ('A = """a\nb"""\nB = 1\n', {"A": "x"}, "A = 'x'\n\nB = 1\n"),
        ("größe = 'ä'; B = 1 # ö\n", {"größe": "ü", "B": 2}, "größe = 'ü'; B = 2 # ö\n"),
        ("A = 1\r\nB = 2\r\n", {"B": 3}, "A = 1\r\nB = 3\r\n"),
        ("A = 1", {"A": 2}, "A = 2"),
        ("A = 1\nA = 2\n", {"A": 3}, "A = 1\nA = 3\n"),
        ("A = (1)\n", {"A": 2}, "A = (2)\n"),
        ("A = 'x\\\ny'\nB = 1\n", {"A": "z"}, "A = 'z'\n\nB = 1\n"),
        ("A = 1\n", {"B": 2}, "A = 1\n"),
        ("A = '\x0c'\nB = 1\n", {"B": 2}, "A = '\x0c'\nB = 2\n"),
        ("A = '\u2028'\nB = 1\n", {"B": 2}, "A = '\u2028'\nB = 2\n"),
    ],
)
def test_only_the_literal_is_replaced(before: str, values: dict[str, object], after: str) -> None:
    assert with_values(before, values) == after


ONE = small_workload(
    params={"BATCH_SIZE": 32, "rate": 0.1, "AUGMENT": True, "MODE": "fast", "SIZES": (1, 2), "NOTHING": None}
)


def test_params_are_converted_to_the_type_of_the_constant() -> None:
    texts = {
        "batch_size": "64, 128,64", "RATE": "1e-3,2", "augment": "false", "Mode": "slow,mode", "sizes": "[3, 4]",
        "nothing": "7",
    }  # fmt: skip
    assert check_params(texts, [ONE]) == {
        "BATCH_SIZE": (64, 128), "rate": (1e-3, 2.0), "AUGMENT": (False,), "MODE": ("slow", "mode"),
        "SIZES": ((3, 4),), "NOTHING": (7,),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "hint"),
    [
        ("BATCH_SIZE", "many", "a whole number; the script has BATCH_SIZE = 32"),
        ("BATCH_SIZE", "1.5", "a whole number"),
        ("BATCH_SIZE", str(2**53 + 2), "a whole number"),
        ("BATCH_SIZE", "9" * 400, "a whole number"),
        ("BATCH_SIZE", ",", "a whole number"),
        ("AUGMENT", "yes", "true or false"),
        ("rate", "nan", "a finite number"),
        ("rate", "inf", "a finite number"),
        ("SIZES", "3", "(32, 64)"),
        ("SIZES", "(1, (2,))", "(32, 64)"),
        ("NOTHING", "(1, 2)", "a Python literal"),
        ("NOTHING", "open('x')", "a Python literal"),
    ],
)
def test_invalid_values(name: str, text: str, hint: str) -> None:
    with pytest.raises(UsageError, match="is not valid") as caught:
        check_params({name.lower(): text}, [ONE])
    assert caught.value.message.startswith(f"{name}={text[:2]}")
    assert hint in caught.value.hint


def test_params_of_several_scripts() -> None:
    other = small_workload("other", params={"BATCH_SIZE": 8})
    values = {
        name: each[0] for name, each in check_params({"rate": "2", "batch_size": "4"}, [ONE, other]).items()
    }
    assert params_for(ONE, values) == {"rate": 2.0, "BATCH_SIZE": 4}
    assert params_for(other, values) == {"BATCH_SIZE": 4}
    with pytest.raises(UsageError, match="'depth'") as caught:
        check_params({"depth": "1"}, [other])
    assert caught.value.hint == "Choose from: BATCH_SIZE."


LADDER = replace(
    small_workload("train", "SIZE = 1\nSTEPS = 1\nMODE = 'a'\n"),
    scripts={"train.py": "SIZE = 1\nSTEPS = 1\nMODE = 'a'\n", "tuned.py": "SIZE = 9\nMODE = 'b'\n"},
    params={"SIZE": 2, "STEPS": 1, "MODE": "a"},  # a further workload of the script: SIZE = 2
    device_params={"gpu": {"STEPS": 3}},
    ladder={
        "fused": Rung(script="tuned.py", params={"MODE": "c"}),
        "long": Rung(script="train.py", params={"STEPS": 5}),
    },
)  # fmt: skip


@pytest.mark.parametrize(
    ("variant", "device", "file", "text"),
    [
        ("baseline", "cpu", "train.py", "SIZE = 2\nSTEPS = 1\nMODE = 'a'\n"),
        ("baseline", "gpu", "train.py", "SIZE = 2\nSTEPS = 3\nMODE = 'a'\n"),
        ("tuned", "gpu", "tuned.py", "SIZE = 2\nMODE = 'b'\n"),
        ("opt:fused", "cpu", "tuned.py", "SIZE = 2\nMODE = 'c'\n"),
        ("opt:long", "gpu", "train.py", "SIZE = 2\nSTEPS = 5\nMODE = 'a'\n"),
    ],
)
def test_the_script_of_a_variant(variant: str, device: str, file: str, text: str) -> None:
    assert script_text(LADDER, variant, device, {}) == (file, text)
    chosen = {"SIZE": 7, "STEPS": 8, "NOT_THERE": 1}
    expected = with_values(text, {"SIZE": 7, "STEPS": 8})
    assert script_text(LADDER, variant, device, chosen) == (file, expected), "the user's values win"
