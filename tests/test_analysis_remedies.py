"""Code to paste: what the tuned leg did, in words that Python and Keras understand."""

from __future__ import annotations

import ast

import pytest

from harness.analysis.remedies import PIPELINE, code_for
from workloads.protocol import Change


def changes(**after: str) -> dict[str, Change]:
    return {what: Change(what=what, before="", after=value, why="") for what, value in after.items()}


@pytest.mark.parametrize(
    ("after", "code"),
    [
        ({"steps_per_execution": "50"}, "model.compile(optimizer, loss, steps_per_execution=50)"),
        ({"jit_compile": "on"}, "model.compile(optimizer, loss, jit_compile=True)"),
        ({"jit_compile": "off"}, ""),
        ({"batch_size": "512"}, "model.fit(x, y, batch_size=512)"),
        ({"precision": "fp16"}, 'tf.keras.mixed_precision.set_global_policy("mixed_float16")'),
        ({"precision": "fp32"}, ""),
        ({"unheard_of": "1"}, ""),
    ],
)
def test_each_change_has_its_line(after: dict[str, str], code: str) -> None:
    assert code_for(changes(**after), on_gpu=True) == code


def test_resident_data_brings_its_own_loop_which_counts_the_steps() -> None:
    code = code_for(changes(feed="resident", steps_per_execution="200", jit_compile="on"), on_gpu=True)
    assert "int32[200, batch]" in code and "jit_compile=True" in code and "/GPU:0" in code
    assert "model.compile" not in code
    assert "/CPU:0" in code_for(changes(feed="resident"), on_gpu=False)


@pytest.mark.parametrize("on_gpu", [True, False])
def test_all_of_it_is_python(on_gpu: bool) -> None:
    everything = {
        "precision": "bf16", "steps_per_execution": "50", "jit_compile": "on", "batch_size": "512",
        "prefetch_to_device": "on",
    }  # fmt: skip
    ast.parse(code_for(changes(**everything), on_gpu))
    ast.parse(code_for(changes(**everything, feed="resident"), on_gpu))
    ast.parse(PIPELINE)


def test_hostile_values_do_not_reach_the_code() -> None:
    hostile = dict.fromkeys(
        ("steps_per_execution", "batch_size", "precision", "jit_compile"), "1); import os"
    )
    assert code_for(changes(**hostile), on_gpu=True) == ""
