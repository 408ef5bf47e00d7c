"""Which parameters each variant runs with, and what it says that it changed."""

from __future__ import annotations

import pytest

from workloads.protocol import Change, Data, Optimization, Spec, Workload
from workloads.tuning import ParameterError, resolve, unfit, variant_changes, variant_params

WORKLOAD = Workload(
    name="w",
    title="W",
    data=Data(name="d", shape=(2,), classes=2, train=8, test=4),
    batch_size=32,
    epochs=10,
    params={"jit_compile": False, "width": 5, "cpu:width": 3},
    tuned={"feed": "resident", "gpu:jit_compile": True, "gpu:batch_size": 256},
    changes=(
        Change(what="batch_size", before="32", after="256", why="fills the GPU"),
        Change(what="layout", before="NCHW", after="NHWC", why="tensor cores read it"),
    ),
    optimizations=(
        Optimization(name="half", params={"precision": "fp16"}, why="half the bytes", device="gpu"),
        Optimization(name="xla", params={"jit_compile": True}, why="fewer kernels"),
    ),
)


def params(variant, **spec):
    return variant_params(WORKLOAD, Spec(**spec), variant, pipeline=False)


def changes(variant, **spec):
    return {one.what: one for one in variant_changes(WORKLOAD, Spec(**spec), variant, pipeline=False)}


def test_a_prefixed_key_holds_on_its_device_only_and_wins_there():
    assert resolve({"a": 1, "cpu:a": 2, "gpu:b": 3}, "cpu") == {"a": 2}
    assert resolve({"a": 1, "cpu:a": 2, "gpu:b": 3}, "gpu") == {"a": 1, "b": 3}


def test_baseline_is_as_published_and_changes_nothing():
    found = params("baseline")
    assert (found["batch_size"], found["epochs"], found["feed"], found["width"]) == (32, 10, "fit", 3)
    assert found["jit_compile"] is False
    assert changes("baseline") == {}


def test_tuned_says_each_change_with_its_reason():
    assert set(changes("tuned", device="cpu")) == {"feed", "layout"}
    found = changes("tuned", device="gpu", gpus=1)
    assert set(found) == {"feed", "jit_compile", "batch_size", "layout"}
    assert (found["jit_compile"].before, found["jit_compile"].after) == ("off", "on")
    assert found["batch_size"].why == "fills the GPU"
    assert found["feed"].why


def test_overrides_reach_every_variant_but_not_what_a_optimization_is_made_of():
    assert params("tuned", device="gpu", params={"batch_size": 8})["batch_size"] == 8
    assert params("opt:half", device="gpu", params={"precision": "bf16"})["precision"] == "fp16"
    assert params("opt:half", device="gpu", params={"width": 9})["width"] == 9


def test_an_unknown_optimization_names_those_there_are():
    with pytest.raises(ParameterError, match="it has: half, xla"):
        params("opt:quarter")


def left_out(variant, **spec):
    return unfit(WORKLOAD, Spec(**spec), variant, pipeline=False)


def test_a_optimization_for_another_device_is_left_out():
    assert "for a gpu only" in left_out("opt:half", device="cpu")
    assert left_out("opt:half", device="gpu", gpus=1) == ""
    assert left_out("tuned", device="cpu") == ""


def test_a_stage_of_a_workload_without_a_pipeline_is_left_out():
    assert "has no pipeline of stages" in left_out("stage:foo")
    assert unfit(WORKLOAD, Spec(), "stage:foo", pipeline=True) == ""


def test_a_optimization_that_several_devices_make_the_same_as_baseline_is_left_out():
    assert left_out("opt:xla", device="gpu", gpus=1) == ""
    assert "the same as baseline" in left_out("opt:xla", device="gpu", gpus=2)
    assert params("opt:xla", device="gpu", gpus=2)["jit_compile"] is False


def test_the_global_batch_of_several_gpus_is_held_against_that_of_baseline_on_as_many():
    found = changes("baseline", device="gpu", gpus=4)
    assert (found["global batch"].before, found["global batch"].after) == ("32", "128")
    assert "global batch" not in changes("opt:half", device="gpu", gpus=4)
    tuned = changes("tuned", device="gpu", gpus=4)["global batch"]
    assert (tuned.before, tuned.after) == ("128", "1024")


def test_a_file_that_declares_nothing_still_gets_a_tuned_variant():
    bare = Workload(name="b", title="B", data=WORKLOAD.data, batch_size=1, epochs=1)
    arrays = variant_params(bare, Spec(device="gpu", gpus=1), "tuned", pipeline=False)
    assert (arrays["feed"], arrays["jit_compile"], arrays["steps_per_execution"]) == ("resident", True, 50)
    stages = variant_params(bare, Spec(device="gpu", gpus=1), "tuned", pipeline=True)
    assert (stages["feed"], stages["prefetch_to_device"]) == ("fit", True)
