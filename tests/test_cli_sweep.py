"""`tfbench sweep`: unknown options are axes, mistakes are told as for --param, and the plan is the grid."""

from __future__ import annotations

import pytest

from harness.cli.sweep import read_words
from harness.errors import UsageError
from harness.run.options import Options, options_document, read_options, resolve

KNOWN = ("--trials", "--device", "--profile")


@pytest.mark.parametrize(
    "words",
    [
        ["mlp", "--batch-size", "32,64", "--jit-compile=true,false"],
        ["--batch-size=32,64", "mlp", "--jit_compile", "true,false"],
        ["--batch-size", "32, 64", "--jit-compile", "true,false", "mlp"],
    ],
)
def test_words_are_workloads_and_axes_in_any_order(words: list[str]) -> None:
    workloads, axes = read_words(words, KNOWN)
    assert workloads == ("mlp",)
    assert axes == {"batch_size": ("32", "64"), "jit_compile": ("true", "false")}


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        (["mlp", "--batch-size"], "no values", "--batch-size 1,2,4"),
        (["mlp", "--trails"], "no values", "Did you mean --trials?"),
        (["mlp", "--rate", "1", "--rate", "2"], "there twice", "once"),
        (["mlp", "-x", "1"], "-x is no option", "-x 1,2,4"),
    ],
)
def test_mistakes(words: list[str], said: str, hint: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        read_words(words, KNOWN)
    assert hint in caught.value.hint


def options(**axes: tuple[str, ...]) -> Options:
    return Options(device="cpu", workloads=("cifar100-mlp",), variants="baseline", axes=axes, trials=2)


def test_the_plan_is_the_grid_interleaved() -> None:
    planned = resolve(options(batch_size=("32", "64"), jit_compile=("off", "on"))).planned
    assert [one.id.removeprefix("cifar100-mlp.cpu.") for one in planned] == [
        "p01.0", "p02.0", "p03.0", "p04.0", "p01.1", "p02.1", "p03.1", "p04.1",
    ]  # fmt: skip
    assert planned[1].point == (("batch_size", 32), ("jit_compile", True))
    assert planned[1].params == {"batch_size": 32, "jit_compile": True}


def test_a_value_that_is_there_twice_is_measured_once() -> None:
    assert len({one.point for one in resolve(options(batch_size=("32", "032", "64"))).planned}) == 2


@pytest.mark.parametrize(
    ("axes", "said"),
    [
        ({"filters": ("1",)}, "no parameter 'filters'"),
        ({"batch_size": ("32", "many")}, "batch_size=many is not valid"),
        ({"batch_size": ()}, "batch_size has no values"),
    ],
)
def test_axes_are_held_against_the_workload(axes: dict[str, tuple[str, ...]], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        resolve(options(**axes))


def test_a_parameter_is_swept_or_set() -> None:
    both = Options(
        device="cpu", workloads=("cifar100-mlp",), axes={"batch_size": ("1",)}, params={"batch_size": "2"}
    )
    with pytest.raises(UsageError, match="both swept and set"):
        resolve(both)


def test_a_run_can_be_resumed_and_repeated_from_its_options() -> None:
    given = options(batch_size=("32", "64"))
    assert read_options(options_document(given)) == given
