import pytest

from workloads.protocol import Data, Spec, Workload
from workloads.tuning import not_applicable, variant_changes, variant_params

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
    changed = variant_changes(WORKLOAD, Spec(**spec), variant)
    return {change.what: (change.before, change.after) for change in changed}


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
        # Compared with the baseline on the same number of GPUs.
        (
            "tuned",
            {**GPU, "gpus": 4, "params": {"feed": "fit"}},
            {"batch_size": ("32", "256"), "global batch": ("128", "1024")},
        ),
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


@pytest.mark.parametrize(
    ("stages", "expected"),
    [
        ((), {"feed": "resident", "jit_compile": True, "steps_per_execution": 50}),
        (("read",), {"feed": "fit", "parallel_maps": True, "prefetch_to_device": True}),
    ],
)
def test_default_tuned_parameters(stages, expected):
    bare = Workload(name="b", title="B", data=DATA, batch_size=1, epochs=1, stages=stages)
    assert expected.items() <= variant_params(bare, Spec(**GPU), "tuned").items()
