"""Declarations may name literals of their own file, and nothing else."""

import ast
from typing import Any

import pytest

from harness.run.declarations import Evaluator
from workloads.protocol import Requests


def evaluate(text: str) -> Any:
    tree = ast.parse(text)
    last = tree.body[-1]
    assert isinstance(last, ast.Assign)
    return Evaluator(tree).value(last.value)


def test_names_of_literals_of_the_file() -> None:
    text = 'BASE: dict = {"a": 1, "b": 2}\nSIDE = 64\nx = {**BASE, "b": SIDE, "c": (1, *"")}'
    with pytest.raises(ValueError, match="line 3: `\\*''` is not a literal"):
        evaluate(text)
    assert evaluate(text.replace(', *""', ""))["b"] == 64


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = unknown", "line 1: `unknown` is not a literal"),
        ("from os import sep\nx = sep", "`sep` is not a literal"),
        ("import os\nx = os.sep", "is not a literal"),
        ("x = open(file='f')", "open\\(...\\) is not one of Workload"),
        ("x = [n for n in (1, 2)]", "is not a literal"),
    ],
)
def test_anything_else_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        evaluate(text)


def test_arguments_that_several_share() -> None:
    text = 'SHARED: dict = {"bounds_ms": (2.0,)}\nx = Requests(**SHARED, batch_sizes=(1,))'
    assert evaluate(text) == Requests(batch_sizes=(1,), bounds_ms=(2.0,))
