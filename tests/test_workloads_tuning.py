import pytest

from tests.builders import small_workload
from workloads.driver.tuning import needless, not_applicable, variant_changes, variant_params
from workloads.protocol import Spec

WORKLOAD = small_workload(
    "w",
    params={"jit_compile": False, "width": 5, "cpu:width": 3},
    tuned={"feed": "resident", "gpu:jit_compile": True, "gpu:batch_size": 256},
    optimizations={"half": {"gpu:precision": "fp16"}, "xla": {"jit_compile": True}},
)
CPU, GPU, FOUR = {"device": "cpu"}, {"device": "gpu", "gpus": 1}, {"device": "gpu", "gpus": 4}
FED, BATCH = {"params": {"feed": "fit"}}, ("32", "256")


def params(variant, **spec):
    return variant_params(WORKLOAD, Spec(**spec), variant)


def changes(variant, **spec):
    changed = variant_changes(WORKLOAD, Spec(**spec), variant)
    return {change.what: (change.before, change.after) for change in changed}


@pytest.mark.parametrize(
    ("variant", "spec", "changed"),
    [
        ("baseline", CPU, {}),
        ("tuned", CPU, {"feed": ("fit", "resident")}),
        ("tuned", GPU, {"feed": ("fit", "resident"), "jit_compile": ("off", "on"), "batch_size": BATCH}),
        ("opt:half", GPU, {"precision": ("tf32", "fp16")}),
        ("baseline", FOUR, {"global batch": ("32", "128")}),
        ("opt:half", FOUR, {"precision": ("tf32", "fp16")}),
        # Compared with the baseline on the same number of GPUs.
        ("tuned", {**FOUR, **FED}, {"batch_size": BATCH, "global batch": ("128", "1024")}),
    ],
)
def test_changes_of_a_variant(variant, spec, changed):
    assert changes(variant, **spec) == changed


def test_overrides_apply_to_all_variants_except_parameters_of_an_optimization():
    assert params("tuned", **GPU, params={"batch_size": 8})["batch_size"] == 8
    assert (params("tuned", **CPU)["width"], params("tuned", **GPU)["width"]) == (3, 5)
    half = params("opt:half", **GPU, params={"precision": "bf16", "width": 9})
    assert (half["precision"], half["width"]) == ("fp16", 9)


def test_an_unknown_optimization_is_an_error_that_lists_the_known_ones():
    with pytest.raises(ValueError, match="Choose from: half, xla"):
        params("opt:quarter")


@pytest.mark.parametrize(
    ("variant", "spec", "reason"),
    [
        ("opt:half", CPU, "changes nothing on cpu"),
        ("opt:half", GPU, ""),
        ("opt:xla", GPU, ""),
        ("opt:xla", {**GPU, "gpus": 2}, "changes nothing on 2 GPUs"),
        ("tuned", CPU, ""),
        ("without:launch", CPU, ""),
        ("without:launch", {**CPU, "params": {"steps_per_execution": 10}}, "changes nothing on cpu"),
        ("stage:foo", CPU, "has no pipeline stages"),
    ],
)
def test_variants_that_do_not_apply_are_left_out(variant, spec, reason):
    result = not_applicable(WORKLOAD, Spec(**spec), variant)
    assert reason in result
    assert bool(result) is bool(reason)


@pytest.mark.parametrize("variant", ["input-only", "stage:read", "threads:1"])
def test_inference_does_not_measure_a_pipeline_that_it_does_not_use(variant):
    for task in ("train", "infer"):
        workload = small_workload(task=task, stages=("read",))
        assert needless(workload, Spec(**CPU), variant) == (task == "infer")


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        ((), {"feed": "resident", "jit_compile": True, "steps_per_execution": 50}),
        (("read",), {"feed": "fit", "parallel_maps": True, "prefetch_to_device": True}),
    ],
)
def test_default_tuned_parameters(stages, expected):
    assert expected.items() <= variant_params(small_workload(stages=stages), Spec(**GPU), "tuned").items()
