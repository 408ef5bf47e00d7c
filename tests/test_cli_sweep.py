"""A sweep is several values of --param: mistakes are told as for one value, and the plan is the grid."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.errors import UsageError
from harness.model.options import Options
from harness.run.resolve import resolve

SWEEP = Options(device="cpu", workloads=("cifar100-mlp",), variants="baseline", trials=2)


def options(**params: str) -> Options:
    return replace(SWEEP, params=params)


def test_parameters_with_several_values_are_axes() -> None:
    given = options(batch_size="32, 64", jit_compile="on")
    assert given.axes == {"batch_size": ("32", "64")}
    assert given.fixed_params == {"jit_compile": "on"}


def test_the_plan_is_the_grid_interleaved() -> None:
    planned = resolve(options(batch_size="32,64", jit_compile="off,on", epochs="2")).planned
    assert [trial.id.removeprefix("cifar100-mlp.cpu.") for trial in planned] == [
        "p01.0", "p02.0", "p03.0", "p04.0", "p01.1", "p02.1", "p03.1", "p04.1",
    ]  # fmt: skip
    assert planned[1].point == (("batch_size", 32), ("jit_compile", True))
    assert planned[1].params == {"batch_size": 32, "jit_compile": True, "epochs": 2}


def test_a_value_that_is_there_twice_is_measured_once() -> None:
    assert len({trial.point for trial in resolve(options(batch_size="32,032,64")).planned}) == 2


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"filters": "1,2"}, "no parameter 'filters'"),
        ({"batch_size": "32,many"}, "batch_size=many is not valid"),
        ({"batch_size": ","}, "batch_size=, is not valid"),
    ],
)
def test_values_are_held_against_the_workload(params: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        resolve(options(**params))
