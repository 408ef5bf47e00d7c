from pathlib import Path

import pytest

from harness.defaults import PROFILES
from harness.errors import GpuError, UsageError
from harness.model.run import Options
from harness.model.workload import Data, Rung, Workload
from harness.run.plan import STEP_VARIANTS, plan_trials, resolve_devices, resolve_variants
from harness.run.trial_container import spec_for
from tests.builders import small_workload
from workloads.protocol import (
    BASELINE,
    HOST_FED,
    INPUT_ONLY,
    STAGES,
    TUNED,
    WITHOUT_COPY,
    Requests,
    Script,
    measures_speed,
)

SMOKE = PROFILES["smoke"]
QUICK = PROFILES["quick"]


def workload(name: str = "mlp", text: str = "", **changes: object) -> Workload:
    ladder = {"fp16": Rung(script="tuned.py")} if name == "resnet50" else {}
    return small_workload(name, text, **{"ladder": ladder, **changes})


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


def test_variants() -> None:
    suite = [workload(), workload("resnet50"), workload("plain", tuned="")]
    whole = (BASELINE, TUNED, *STEP_VARIANTS)
    assert resolve_variants("", True, suite) == dict.fromkeys(("mlp", "resnet50", "plain"), whole)
    assert STAGES in whole
    assert resolve_variants(" , ", True, suite)["mlp"] == whole
    assert resolve_variants("batch:8,threads:2,without:copy,stages", True, suite)["mlp"] == (
        "batch:8", "threads:2", "without:copy", "stages",
    )  # fmt: skip
    without = resolve_variants("", False, suite)
    assert (without["mlp"], without["plain"]) == ((BASELINE, TUNED), (BASELINE,))
    named = resolve_variants("tuned, opt:fp16,tuned", True, suite)
    assert named == {"mlp": ("tuned",), "resnet50": ("tuned", "opt:fp16"), "plain": ("tuned",)}


def test_trees_wait_for_no_input() -> None:
    trees = workload("trees", image="trees")
    assert resolve_variants("", True, [trees])["trees"] == (BASELINE, TUNED, INPUT_ONLY)
    assert resolve_variants("model-only", True, [trees])["trees"] == ("model-only",)
    with pytest.raises(UsageError, match="'batch:4'"):
        resolve_variants("batch:4", True, [trees])


def test_copy_variants_run_only_on_gpus() -> None:
    suite = [workload("a")]
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
    "wanted",
    ["batch:0", "batch:", "calls:x", "fast", "opt:fp8", "opt:", "stage:", "stage:read", "baseline,tuned2"],
)
def test_unknown_variants(wanted: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve_variants(wanted, True, [workload("resnet50")])
    assert "opt:fp16" in caught.value.hint
    assert "without:launch" in caught.value.hint


def test_trials_are_interleaved_by_index() -> None:
    suite = [workload(name, params={"BATCH_SIZE": 32}) for name in "ab"]
    planned = plan_trials(suite, ("cpu", "gpu0"), QUICK, resolve_variants("", True, suite), {"BATCH_SIZE": 8})
    assert [trial.id for trial in planned[:5]] == ["a.cpu.0", "a.gpu0.0", "b.cpu.0", "b.gpu0.0", "a.cpu.1"]
    assert len({trial.id for trial in planned}) == len(planned) == 4 * QUICK.max_trials
    assert [trial.index for trial in planned] == sorted(trial.index for trial in planned)
    assert all(trial.params == {"BATCH_SIZE": 8} for trial in planned)


SCRIPT = "BATCH_SIZE = 32\nFOLDER = ''\n"
PICTURES = Data(name="pictures", shape=(4,), classes=2, train=2, test=2, constant="FOLDER")


def test_spec() -> None:
    full = PROFILES["full"]
    one = workload(
        "resnet50", SCRIPT, params={"BATCH_SIZE": 32, "FOLDER": ""}, datasets=(PICTURES,),
        requests=Requests(batch_sizes=(1,)), device_params={"gpu": {"BATCH_SIZE": 64}},
    )  # fmt: skip
    variants = {"resnet50": ("tuned", "input-only", "opt:fp16")}
    planned = plan_trials([one], ("gpu0+gpu1",), full, variants, {"BATCH_SIZE": 8})
    options = Options(seed=7, arguments=("--fast",), call=2, mounts=(Path("/data/x"),))
    first, second = (
        spec_for(each, one, full, options, folder="/script", data={"pictures": "/d"}) for each in planned[:2]
    )
    text = "BATCH_SIZE = 8\nFOLDER = '/d'\n"
    assert first.scripts == {
        BASELINE: Script(
            path="/script/resnet50.py", text=text
        ),  # for its call, also where it is not measured
        "tuned": Script(path="/script/tuned.py", text=text),
        "opt:fp16": Script(path="/script/tuned.py", text=text),
    }
    assert (first.arguments, first.call, first.mounts, first.seed) == (("--fast",), 2, ("/data/x",), 7)
    assert (first.device, first.gpus, first.data, first.requests) == (
        "gpu",
        2,
        {"pictures": "/d"},
        one.requests,
    )
    assert first.variants == variants["resnet50"]
    assert (first.windows, first.window_s, first.variant_s) == (full.windows, full.window_s, full.variant_s)
    assert first.analysis_variant_s == full.analysis_variant_s
    assert first.whole_s == pytest.approx(0.8 * full.limit_s / 2)
    assert first.full and first.evaluate
    assert not second.full and not second.evaluate, "only the first trial trains the published epochs"
    assert all(measures_speed(variant) for variant in second.scripts)


def test_values_by_device() -> None:
    one = workload(
        "a", SCRIPT, params={"BATCH_SIZE": 32, "FOLDER": ""}, device_params={"gpu": {"BATCH_SIZE": 64}}
    )
    planned = plan_trials([one], ("cpu", "gpu0"), SMOKE, {"a": (BASELINE,)}, {})
    specs = [spec_for(each, one, SMOKE, Options(), folder="/s", data={}) for each in planned]
    assert [spec.scripts[BASELINE].text.split("\n")[0] for spec in specs] == [
        "BATCH_SIZE = 32",
        "BATCH_SIZE = 64",
    ]
