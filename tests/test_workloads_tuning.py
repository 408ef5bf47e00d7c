"""Which parameters each variant runs with, and what it changes of the baseline."""

from __future__ import annotations

import pytest

from workloads.protocol import Data, Spec, Workload
from workloads.tuning import unfit, variant_changes, variant_params

DATA = Data(name="d", shape=(2,), classes=2, train=8, test=4)
WORKLOAD = Workload(
    name="w", title="W", data=DATA, batch_size=32, epochs=10,
    params={"jit_compile": False, "width": 5, "cpu:width": 3},
    tuned={"feed": "resident", "gpu:jit_compile": True, "gpu:batch_size": 256},
    optimizations={"half": {"gpu:precision": "fp16"}, "xla": {"jit_compile": True}},
)  # fmt: skip
CPU, GPU = {"device": "cpu"}, {"device": "gpu", "gpus": 1}


def params(variant, **spec):
    return variant_params(WORKLOAD, Spec(**spec), variant)


def changes(variant, **spec):
    return {
        change.what: (change.before, change.after)
        for change in variant_changes(WORKLOAD, Spec(**spec), variant)
    }


@pytest.mark.parametrize(
    ("variant", "spec", "changed"),
    [
        ("baseline", CPU, {}),
        ("tuned", CPU, {"feed": ("fit", "resident")}),
        (
            "tuned",
            GPU,
            {"feed": ("fit", "resident"), "jit_compile": ("off", "on"), "batch_size": ("32", "256")},
        ),
        ("opt:half", GPU, {"precision": ("tf32", "fp16")}),
        ("baseline", {**GPU, "gpus": 4}, {"global batch": ("32", "128")}),
        ("opt:half", {**GPU, "gpus": 4}, {"precision": ("tf32", "fp16")}),
        # Held against the baseline on as many.
        (
            "tuned",
            {**GPU, "gpus": 4, "params": {"feed": "fit"}},
            {"batch_size": ("32", "256"), "global batch": ("128", "1024")},
        ),
    ],
)
def test_what_a_variant_changes(variant, spec, changed):
    assert changes(variant, **spec) == changed


def test_overrides_reach_every_variant_but_not_what_an_optimization_is_made_of():
    assert params("tuned", **GPU, params={"batch_size": 8})["batch_size"] == 8
    assert (params("tuned", **CPU)["width"], params("tuned", **GPU)["width"]) == (3, 5)
    half = params("opt:half", **GPU, params={"precision": "bf16", "width": 9})
    assert (half["precision"], half["width"]) == ("fp16", 9)


def test_an_unknown_optimization_names_those_there_are():
    with pytest.raises(ValueError, match="it has: half, xla"):
        params("opt:quarter")


@pytest.mark.parametrize(
    ("variant", "spec", "reason"),
    [
        ("opt:half", CPU, "changes nothing on cpu"),
        ("opt:half", GPU, ""),
        ("opt:xla", GPU, ""),
        ("opt:xla", {**GPU, "gpus": 2}, "changes nothing on 2 GPUs"),
        ("tuned", CPU, ""),
        ("stage:foo", CPU, "has no pipeline of stages"),
    ],
)
def test_what_makes_no_sense_is_left_out(variant, spec, reason):
    left_out = unfit(WORKLOAD, Spec(**spec), variant)
    assert reason in left_out
    assert bool(left_out) is bool(reason)


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        ((), {"feed": "resident", "jit_compile": True, "steps_per_execution": 50}),
        (("read",), {"feed": "fit", "parallel_maps": True, "prefetch_to_device": True}),
    ],
)
def test_a_file_that_declares_nothing_still_gets_a_tuned_variant(stages, expected):
    bare = Workload(name="b", title="B", data=DATA, batch_size=1, epochs=1, stages=stages)
    assert expected.items() <= variant_params(bare, Spec(**GPU), "tuned").items()
