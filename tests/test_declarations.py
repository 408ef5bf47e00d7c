"""Declarations may name literals, of their own file or of a module of workloads, and nothing else."""

import ast
from pathlib import Path
from typing import Any

import pytest

from harness.run.declarations import Evaluator, parse_file
from workloads.protocol import Change


def evaluate(text: str, folder: Path) -> Any:
    tree = ast.parse(text)
    last = tree.body[-1]
    assert isinstance(last, ast.Assign)
    return Evaluator(tree, folder, {"Change": Change}).value(last.value)


def test_names_of_literals_of_the_same_file(tmp_path: Path) -> None:
    text = 'BASE: dict = {"a": 1, "b": 2}\nSIDE = 64\nx = {**BASE, "b": SIDE, "c": (1, *"")}'
    with pytest.raises(ValueError, match="line 3: `\\*''` is not a literal"):
        evaluate(text, tmp_path)
    assert evaluate(text.replace(', *""', ""), tmp_path) == {"a": 1, "b": 64, "c": 1}


def test_names_of_literals_of_another_module(tmp_path: Path) -> None:
    (tmp_path / "pets.py").write_text(
        'import tensorflow\nCHANGES = (Change(what="a", before="b", after=AFTER),)\nAFTER = "c"'
    )
    text = "from workloads.pets import CHANGES as steps, AFTER\nx = (steps, AFTER)"
    assert evaluate(text, tmp_path) == ((Change(what="a", before="b", after="c"),), "c")


def test_a_file_that_has_not_changed_is_parsed_once_and_one_that_has_again(tmp_path: Path) -> None:
    file = tmp_path / "pets.py"
    file.write_text("WHY = 1")
    first = parse_file(file)
    assert parse_file(file) is first
    file.write_text("WHY = 2")
    assert ast.unparse(parse_file(file)) == "WHY = 2"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = unknown", "line 1: `unknown` is not a literal"),
        ("A = B\nB = A\nx = A", "refers to itself"),
        ("import os\nx = os.sep", "is not a literal"),
        ("from os import sep\nx = sep", "`sep` is imported from os"),
        ("from workloads.missing import A\nx = A", "imported from workloads.missing"),
        ("x = open(file='f')", "open\\(...\\) is not one of Change"),
        ("x = [n for n in (1, 2)]", "is not a literal"),
    ],
)
def test_anything_else_is_refused(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=said):
        evaluate(text, tmp_path)


def test_arguments_that_several_share(tmp_path: Path) -> None:
    text = 'SHARED: dict = {"before": "b", "after": "c"}\nx = Change(**SHARED, what="a")'
    assert evaluate(text, tmp_path) == Change(what="a", before="b", after="c")
