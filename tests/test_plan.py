from dataclasses import replace

import pytest

from harness.defaults import PROFILES
from harness.errors import GpuError, UsageError
from harness.run.params import check_params, params_for
from harness.run.plan import (
    PIPELINE_VARIANTS,
    STEP_VARIANTS,
    plan_trials,
    resolve_devices,
    resolve_variants,
    spec_for,
)
from tests.builders import small_workload
from workloads.protocol import BASELINE, HOST_FED, TUNED, WITHOUT_COPY, Workload

SMOKE = PROFILES["smoke"]
QUICK = PROFILES["quick"]


def workload(name: str = "mlp", **params: object) -> Workload:
    return small_workload(name, params=params, optimizations={"fp16": {}} if name == "resnet50" else {})


@pytest.mark.parametrize(
    ("wanted", "gpus", "devices"),
    [
        ("auto", 0, ("cpu",)),
        ("auto", 2, ("cpu", "gpu0", "gpu1")),
        ("cpu", 2, ("cpu",)),
        ("gpu", 2, ("gpu0", "gpu1")),
        ("gpu1", 2, ("gpu1",)),
        ("gpu1+gpu0", 2, ("gpu1+gpu0",)),
        ("cpu, gpu0,cpu", 1, ("cpu", "gpu0")),
        ("scaling", 1, ("gpu0",)),
        ("scaling", 3, ("gpu0", "gpu0+gpu1")),
        ("cpu,scaling", 4, ("cpu", "gpu0", "gpu0+gpu1", "gpu0+gpu1+gpu2+gpu3")),
    ],
)
def test_devices(wanted: str, gpus: int, devices: tuple[str, ...]) -> None:
    assert resolve_devices(wanted, gpus) == devices


@pytest.mark.parametrize(
    ("wanted", "gpus"),
    [("gpu1", 1), ("gpu2", 2), ("tpu", 1), ("gpu0+gpu0", 2), ("gpu0+cpu", 1),
     ("gpu0+", 1), ("GPU0", 1), ("tpu", 0)],
)  # fmt: skip
def test_unavailable_devices(wanted: str, gpus: int) -> None:
    with pytest.raises(UsageError) as caught:
        resolve_devices(wanted, gpus)
    assert repr(wanted) in caught.value.message
    assert "cpu" in caught.value.hint
    assert wanted != "gpu1" or "--gpus all" in caught.value.hint


@pytest.mark.parametrize("wanted", ["gpu", "scaling", "gpu0", "gpu0+gpu1"])
def test_without_a_gpu_the_reason_is_given(wanted: str) -> None:
    with pytest.raises(GpuError, match=f"{wanted!r}.* no driver[.]".replace("+", "[+]")):
        resolve_devices(wanted, 0, "no driver.")


def test_params_are_converted_to_the_type_of_the_default() -> None:
    one = workload(**{"rate": 0.1, "cpu:workers": 4, "augment": True, "mode": "fast", "offset": 0})
    texts = {
        "batch_size": "64", "precision": "fp16", "rate": "1e-3", "workers": "0", "augment": "false",
        "mode": "slow", "offset": "-3", "jit_compile": "TRUE",
    }  # fmt: skip
    assert check_params({**texts, "epochs": "2, 3,2"}, [one]) == {
        "batch_size": (64,), "precision": ("fp16",), "rate": (1e-3,), "workers": (0,), "augment": (False,),
        "mode": ("slow",), "offset": (-3,), "jit_compile": (True,), "epochs": (2, 3),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text", "hint"),
    [
        ("batch_size", "many", "above 0"),
        ("batch_size", "0", "above 0"),
        ("workers", "1.5", "whole number"),
        ("epochs", "-1", "above 0"),
        ("jit_compile", "yes", "true"),
        ("precision", "fp8", "bf16"),
        ("rate", "nan", "finite"),
        ("rate", "inf", "finite"),
        ("shape", "3", "your own"),
    ],
)
def test_invalid_param_values(name: str, text: str, hint: str) -> None:
    with pytest.raises(UsageError, match=f"{name}={text}") as caught:
        check_params({name: text}, [workload(rate=0.1, workers=2, shape=(1, 2))])
    assert hint in caught.value.hint


def test_params_for_a_workload() -> None:
    params = {"rate": 0.2, "batch_size": 8}
    assert params_for(workload(rate=0.1), params) == params
    assert params_for(workload(), params) == {"batch_size": 8}
    trees = replace(workload("trees", depth=6), image="trees")
    with pytest.raises(UsageError, match="'jit_compile'") as caught:
        check_params({"jit_compile": "on"}, [trees])
    assert caught.value.hint == "Choose from: batch_size, depth, epochs."


def test_variants() -> None:
    suite = [workload(), workload("resnet50")]
    whole = (BASELINE, TUNED, *STEP_VARIANTS)
    assert resolve_variants("", True, suite) == {"mlp": whole, "resnet50": whole}
    assert resolve_variants(" , ", True, suite)["mlp"] == whole
    assert resolve_variants("batch:8,threads:2,without:copy", True, suite)["mlp"] == (
        "batch:8", "threads:2", "without:copy",
    )  # fmt: skip
    assert resolve_variants("", False, suite)["mlp"] == (BASELINE, TUNED)
    named = resolve_variants("tuned, opt:fp16,tuned", True, suite)
    assert named == {"mlp": ("tuned",), "resnet50": ("tuned", "opt:fp16")}
    generated = replace(workload("generated"), data=replace(workload().data, train=0))
    assert resolve_variants("stage:decode", True, [*suite, generated]) == {
        "mlp": (), "resnet50": (), "generated": ("stage:decode",),
    }  # fmt: skip


def test_stages_are_measured_by_default() -> None:
    piped = replace(workload("piped"), stages=("read", "batch"))
    suite = [workload(), piped]
    stages = ("stage:read", "stage:batch")
    planned = resolve_variants("", True, suite)
    assert planned["piped"] == (BASELINE, TUNED, *STEP_VARIANTS, *stages, *PIPELINE_VARIANTS)
    assert not set(planned["mlp"]) & {*stages, *PIPELINE_VARIANTS}
    assert resolve_variants("", False, suite)["piped"] == (BASELINE, TUNED)
    assert resolve_variants("stage:read", True, [piped]) == {"piped": ("stage:read",)}
    with pytest.raises(UsageError, match="stage:decode") as caught:
        resolve_variants("stage:decode", True, [piped])
    assert "stage:read, stage:batch" in caught.value.hint


def test_copy_variants_run_only_on_gpus() -> None:
    suite = [replace(workload("a"), stages=("read",))]
    planned = plan_trials(suite, ("cpu", "gpu0"), SMOKE, resolve_variants("", True, suite), {})
    on_gpu = {HOST_FED, WITHOUT_COPY}
    assert [on_gpu & set(one.variants) for one in planned] == [set(), on_gpu]


def test_breakdown_variants_run_only_in_the_first_trial() -> None:
    suite = [workload("a"), workload("resnet50")]
    planned = plan_trials(
        suite, ("cpu",), QUICK, resolve_variants("baseline,model-only,opt:fp16,tuned", True, suite), {}
    )
    by_name = {one.id: one.variants for one in planned}
    assert by_name["a.cpu.0"] == (BASELINE, "model-only", TUNED)
    assert by_name["a.cpu.1"] == by_name["a.cpu.2"] == (BASELINE, TUNED)
    assert by_name["resnet50.cpu.1"] == (BASELINE, "opt:fp16", TUNED)
    only = plan_trials(suite, ("cpu",), QUICK, resolve_variants("model-only", True, suite), {})
    assert {one.variants for one in only} == {("model-only",)}, "explicitly selected variants are repeated"


@pytest.mark.parametrize(
    "wanted", ["batch:0", "batch:", "calls:x", "fast", "opt:fp8", "opt:", "stage:", "baseline,tuned2"]
)
def test_unknown_variants(wanted: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve_variants(wanted, True, [workload("resnet50")])
    assert "opt:fp16" in caught.value.hint
    assert "without:launch" in caught.value.hint


def test_trials_are_interleaved_by_index() -> None:
    suite = [workload("a"), workload("b")]
    planned = plan_trials(suite, ("cpu", "gpu0"), QUICK, resolve_variants("", True, suite), {"batch_size": 8})
    assert [trial.id for trial in planned[:5]] == ["a.cpu.0", "a.gpu0.0", "b.cpu.0", "b.gpu0.0", "a.cpu.1"]
    assert len({trial.id for trial in planned}) == len(planned) == 4 * QUICK.max_trials
    assert [trial.index for trial in planned] == sorted(trial.index for trial in planned)
    assert all(trial.params == {"batch_size": 8} for trial in planned)


def test_spec() -> None:
    full = PROFILES["full"]
    planned = plan_trials([workload("a")], ("gpu0+gpu1",), full, {"a": ("tuned",)}, {"epochs": 2})
    first = spec_for(planned[0], full, file="mlp.py", data_dir="/data", seed=7)
    assert (first.workload, first.file) == ("a", "mlp.py")
    assert (first.device, first.gpus) == ("gpu", 2)
    assert (first.variants, first.params, first.seed) == (("tuned",), {"epochs": 2}, 7)
    assert (first.windows, first.window_s, first.variant_s) == (full.windows, full.window_s, full.variant_s)
    assert first.analysis_variant_s == full.analysis_variant_s
    assert first.full
    second = spec_for(planned[1], full, file="/f/mine.py", data_dir="/data", seed=7)
    assert not second.full, "only the first trial trains the published epochs"
    assert (second.workload, second.file) == ("a", "/f/mine.py")


def test_trees_have_no_model_only_variant_by_default() -> None:
    trees = replace(workload("trees"), image="trees")
    assert "model-only" not in resolve_variants("", True, [trees])["trees"]
    assert resolve_variants("model-only", True, [trees])["trees"] == ("model-only",)
