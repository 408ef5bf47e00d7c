"""Code to paste: what the tuned variant did, in words that Python and Keras understand; predictions judged."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import Any

import pytest

from harness.analysis import analyse, remedies
from harness.analysis.case import cases
from harness.analysis.measures import measures
from harness.analysis.remedy_code import (
    Program,
    code_for,
    copy_code,
    device_code,
    launch_code,
    overlap_code,
    pipeline_code,
)
from harness.analysis.remedy_names import introduced, stage_functions
from harness.analysis.summaries import summaries
from harness.model.analysis import Estimate, Finding, Remedy, Verdict
from harness.model.run import Run, VariantInfo
from harness.run.catalogue import Entry, built_in
from tests.builders import VariantSpeed, run
from tests.builders_telemetry import GpuLoad
from workloads.protocol import (
    BASELINE,
    INPUT_ONLY,
    MODEL_ONLY,
    OPTIMIZATION_PREFIX,
    TUNED,
    WITHOUT_INPUT,
    Change,
    Spec,
)
from workloads.tuning import applies, variant_changes, variant_params

GPU, CPU = Program(on_gpu=True), Program(on_gpu=False)
ANSWERS = {
    name: getattr(remedies, name) for name in ("LAUNCH", "COPYING", "OVERLAP", "DISK", "INPUT", "DEVICE")
}
FALLBACKS = (launch_code, overlap_code, copy_code, pipeline_code, device_code)


STAGES = ("read", "decode", "augment", "cache", "batch", "prefetch")


def changes(**after: str) -> dict[str, Change]:
    return {what: Change(what=what, before="", after=value, why="") for what, value in after.items()}


@pytest.mark.parametrize(
    ("after", "code"),
    [
        ({"steps_per_execution": "50"}, "model.compile(optimizer, loss, steps_per_execution=50)"),
        ({"jit_compile": "on"}, "model.compile(optimizer, loss, jit_compile=True)"),
        ({"jit_compile": "off"}, "model.compile(optimizer, loss, jit_compile=False)"),
        ({"batch_size": "512"}, "model.fit(x, y, batch_size=512)"),
        ({"precision": "fp16"}, 'tf.keras.mixed_precision.set_global_policy("mixed_float16")'),
        ({"precision": "fp32"}, "tf.config.experimental.enable_tensor_float_32_execution(False)"),
        ({"prefetch": "4"}, "dataset = dataset.prefetch(4)  # at the pipeline's end"),
        ({"workers": "4"}, "# workers = 4, a parameter of this workload's own"),
    ],
)
def test_each_change_has_its_line(after: dict[str, str], code: str) -> None:
    assert code_for(changes(**after), GPU) == code


def test_resident_data_brings_its_own_loop_which_runs_as_the_variant_did() -> None:
    code = code_for(changes(feed="resident", steps_per_execution="200", jit_compile="on"), GPU)
    assert "int32[200, batch]" in code and "jit_compile=True" in code and "/GPU:0" in code
    assert "model.compile" not in code
    assert "/CPU:0" in code_for(changes(feed="resident"), CPU)
    variant = replace(GPU, params={"jit_compile": True, "steps_per_execution": 50})
    alone = code_for(changes(feed="resident"), variant)
    assert "int32[50, batch]" in alone and "jit_compile=True" in alone


def test_requests_are_not_trained() -> None:
    asked = replace(GPU, task="infer")
    code = code_for(changes(feed="resident", jit_compile="on", batch_size="256"), asked)
    assert "training=False" in code and "train_step" not in code and "jit_compile=True" in code
    assert code_for(changes(batch_size="8"), asked) == "model.predict(x, batch_size=8)"
    assert "optimizer" not in launch_code(asked)


def test_several_cards_are_fed_under_a_strategy() -> None:
    four = replace(GPU, cards=4, params={"steps_per_execution": 50})
    code = code_for(changes(feed="resident", jit_compile="on"), four)
    assert "MirroredStrategy" in code and "50 of them" in code and "GPU:0" not in code
    assert "GPU:0" not in copy_code(four)


def test_trees_get_no_keras() -> None:
    trees = replace(GPU, image="trees")
    assert [fallback(trees) for fallback in FALLBACKS] == [""] * len(FALLBACKS)
    code = code_for(changes(matrix="quantile", evaluate="off", max_bin="64"), trees)
    assert "xgboost.QuantileDMatrix(x, y, max_bin=64)" in code and "evals" in code


def test_arrays_are_made_a_dataset_before_they_are_prefetched() -> None:
    assert overlap_code(GPU).startswith("dataset = dataset.prefetch")
    assert "from_tensor_slices" in overlap_code(replace(GPU, pipeline=False))
    assert "GPU" not in copy_code(CPU) and "/GPU:0" in copy_code(GPU)


@pytest.mark.parametrize(
    "program",
    [
        GPU,
        CPU,
        replace(GPU, task="infer"),
        replace(GPU, pipeline=False),
        replace(GPU, stages=STAGES, batch=64),
    ],
)
def test_all_of_it_is_python(program: Program) -> None:
    everything = {
        "precision": "bf16", "steps_per_execution": "50", "jit_compile": "on", "batch_size": "512",
        "prefetch_to_device": "on", "loader": "tfdata", "preprocess": "device", "cache": "on",
        "parallel_maps": "on", "prefetch_batches": "on", "storage": "ram",
    }  # fmt: skip
    ast.parse(code_for(changes(**everything), program))
    ast.parse(code_for(changes(**everything, feed="resident"), program))
    for fallback in FALLBACKS:
        ast.parse(fallback(program))


@pytest.mark.parametrize("program", [GPU, replace(GPU, image="trees")])
def test_hostile_values_do_not_reach_the_code(program: Program) -> None:
    names = (
        "steps_per_execution", "batch_size", "precision", "jit_compile", "prefetch", "workers", "max_bin",
        "x\nimport os",
    )  # fmt: skip
    assert code_for(changes(**dict.fromkeys(names, "1); import os")), program) == ""
    assert code_for(changes(**{"x\nimport os": "1"}), program) == ""


@pytest.mark.parametrize(
    ("stages", "functions"),
    [
        (STAGES, ("decode", "augment")),
        (("generate", "batch"), ()),
        ((), ()),
        (("read", "two words", "import", "pad"), ("pad",)),
    ],
)
def test_stages_that_work_on_samples_are_called_by_their_names(
    stages: tuple[str, ...], functions: tuple[str, ...]
) -> None:
    assert stage_functions(stages) == functions
    piped = replace(GPU, stages=stages, batch=64)
    for code in (pipeline_code(piped), code_for(changes(parallel_maps="on"), piped)):
        assert all(f".map({name}, num_parallel_calls" in code for name in functions)
        assert code.count(".map(") == max(1, len(functions))
    assert ".batch(64)" in pipeline_code(piped)


def test_what_the_device_does_is_left_out_of_the_pipeline() -> None:
    piped = replace(GPU, stages=STAGES)
    assert "map(augment" in code_for(changes(loader="tfdata"), piped)
    assert "map(augment" not in code_for(changes(loader="tfdata", preprocess="device"), piped)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("dataset = dataset.map(augment).map(other)",
         "# Stages of this workload: augment. Placeholders: dataset, other.\n"),
        ("dataset = tf.data.Dataset.range(9)\nx = max(dataset)", ""),
        ("# workers = 4, a parameter", ""),
        ("def train(indices):\n    for one in indices:\n        model.step(one)\ntrain(one)",
         "# Placeholders: model, one.\n"),
        ("x, y = np.array(x_train), 1\nprint(x, y)", "# Placeholders: x_train.\n"),
    ],
)  # fmt: skip
def test_code_says_which_names_are_placeholders(code: str, said: str) -> None:
    assert introduced(code, STAGES) == said + code


def declared_variants(entry: Entry) -> list[str]:
    return [
        TUNED,
        WITHOUT_INPUT,
        *(f"{OPTIMIZATION_PREFIX}{optimization.name}" for optimization in entry.workload.optimizations),
    ]


def shown(code: str) -> dict[str, Any]:
    """Return what code to paste sets, by the parameters' names."""
    found: dict[str, Any] = {}
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.keyword) and isinstance(node.value, ast.Constant) and node.arg:
            found[node.arg] = node.value.value
    for name, pattern in {
        "steps_per_execution": r"int32\[(\d+), batch\]",
        "batch_size": r"^batch_size = (\d+)",
        "max_bin": r'params\["max_bin"\] = (\d+)',
    }.items():
        if match := re.search(pattern, code, re.MULTILINE):
            found[name] = int(match[1])
    for name, value in re.findall(r"^# (\w+) = (\S+),", code, re.MULTILINE):
        found[name] = value
    return found


@pytest.mark.parametrize("answers", ANSWERS)
@pytest.mark.parametrize("device", ["cpu", "gpu"])
@pytest.mark.parametrize("entry", built_in(), ids=lambda entry: entry.workload.name)
def test_the_code_of_every_remedy_sets_what_the_declared_variant_does(
    entry: Entry, device: str, answers: str
) -> None:
    workload, spec = entry.workload, Spec(device=device, gpus=int(device == "gpu"))
    pipeline = bool(workload.stages) or workload.data.kind == "jpeg"
    for variant in declared_variants(entry):
        if not applies(workload, spec, variant, pipeline=pipeline):
            continue
        params = variant_params(workload, spec, variant, pipeline=pipeline)
        changed = variant_changes(workload, spec, variant, pipeline=pipeline)
        applied = {one.what: one for one in changed if one.what in ANSWERS[answers]}
        program = Program(
            on_gpu=device == "gpu", task=workload.task, image=workload.image, pipeline=pipeline, params=params
        )
        code = code_for(applied, program)
        assert bool(code) == bool(applied), (variant, applied)
        for name, value in shown(code).items():
            if name in params:
                assert str(value) in (str(params[name]), {True: "on", False: "off"}.get(params[name])), (
                    variant
                )
        if params.get("feed") == "resident" and "feed" in applied:
            assert ("jit_compile=True" in code) == bool(params["jit_compile"])
        assert ("/GPU:0" in code) <= (device == "gpu")


STEPS = {
    BASELINE: VariantSpeed(step_s=0.015, batch=32, wait_share=1 / 3),
    INPUT_ONLY: VariantSpeed(step_s=0.005, batch=32),
    MODEL_ONLY: VariantSpeed(step_s=0.010, batch=32),
}


def played(trials: int = 3, profile: str = "quick", **variants: tuple[float, tuple[str, ...]]) -> Run:
    """Play variants by (seconds a step, what each changes) beside a pipeline that is not overlapped."""
    names = {name.replace("__", ":").replace("_", "-"): value for name, value in variants.items()}
    speeds = {**STEPS, **{name: VariantSpeed(step_s=step_s, batch=32) for name, (step_s, _) in names.items()}}
    made = run({"cpu": speeds}, trials=trials, accuracy=0.3)
    told = {name: tuple(changes(**dict.fromkeys(what, "on")).values()) for name, (_, what) in names.items()}
    manifest = replace(made.manifest, parameters={**made.manifest.parameters, "profile": profile})
    trial = tuple(
        replace(
            each,
            variants=tuple(
                VariantInfo(variant=one.variant, params=one.params, changes=told.get(one.variant, ()))
                for one in each.variants
            ),
        )
        for each in made.trials
    )
    return replace(made, trials=trial, manifest=manifest)


def overlap(made: Run) -> Remedy:
    found: Verdict = next(one for one in analyse(made).verdicts if one.rule == "no-overlap")
    assert found.remedy is not None
    return found.remedy


def test_a_remedys_code_has_the_names_and_the_batch_of_its_workload() -> None:
    made = played(tuned=(0.0101, ("parallel_maps",)), input_only=(0.014, ()))
    piped = replace(made, workloads=(replace(made.workloads[0], stages=STAGES),))
    found = next(one.remedy for one in analyse(piped).verdicts if one.rule == "input-bound")
    assert found is not None
    assert found.code.startswith("# Stages of this workload: decode, augment. Placeholders: dataset.\n")
    fallback = overlap(played())
    assert ".batch(32)" in fallback.code and fallback.code.startswith("# Placeholders: x, y, model.\n")


def test_a_gain_comes_from_the_variant_that_changes_what_the_remedy_changes() -> None:
    resident = overlap(played(tuned=(0.001, ("feed", "jit_compile"))))
    assert (
        resident.measured_gain is None
        and resident.measured_variant == ""
        and "tf.constant" not in resident.code
    )
    both = overlap(
        played(
            tuned=(0.001, ("feed", "prefetch_batches")),
            opt__prefetch=(0.0101, ("prefetch_batches",)),
        )
    )
    assert both.measured_variant == "opt:prefetch"
    assert both.measured_gain is not None and both.measured_gain.median == pytest.approx(1.5, rel=0.05)
    assert both.miss is None and both.not_judged == ""


def test_a_gain_measured_together_with_other_changes_judges_no_prediction() -> None:
    found = overlap(played(tuned=(0.001, ("prefetch_batches", "jit_compile"))))
    assert "measured together with jit_compile, which the variant “tuned” changes as well" in found.text
    assert found.miss is None and found.not_judged == "measured together with jit_compile"


@pytest.mark.parametrize(
    ("profile", "trials", "why"), [("smoke", 3, "smoke profile"), ("quick", 1, "one trial")]
)
def test_too_few_data_judge_no_prediction(profile: str, trials: int, why: str) -> None:
    found = overlap(played(trials, profile=profile, tuned=(0.001, ("prefetch_batches",))))
    assert found.miss is None and why in found.not_judged


@pytest.mark.parametrize(
    ("low", "high", "at_least", "judged"),
    [(1.4, 1.6, False, True), (0.9, 1.0, False, True), (2.0, 2.4, False, True), (2.0, 2.4, True, True),
     (1.0, 1.6, False, False), (0.9, 2.4, False, False), (1.4, 9.0, True, True), (1.4, 9.0, False, False)],
)  # fmt: skip
def test_an_interval_that_holds_hits_and_misses_judges_no_prediction(
    low: float, high: float, at_least: bool, judged: bool
) -> None:
    made = played()
    (case,) = cases(made, summaries(made, measures(made)), ())
    gain = Estimate(median=(low + high) / 2, low=low, high=high, n=3, unit="ratio")
    why = remedies.not_judged(case, 1.5, gain, [], at_least=at_least)
    assert (why == "") is judged
    assert judged or "too wide" in why


# Steps in seconds that make each rule find what it is about, as far as variants alone do.
HELD_BACK = {
    "launch-bound": {
        BASELINE: 0.010, INPUT_ONLY: 0.0002, MODEL_ONLY: 0.010, "batch:4": 0.0105, "calls:10": 0.003,
    },
    "input-bound": {BASELINE: 0.041, INPUT_ONLY: 0.040, MODEL_ONLY: 0.004},
    "no-overlap": {BASELINE: 0.015, INPUT_ONLY: 0.005, MODEL_ONLY: 0.010},
    "copy-bound": {BASELINE: 0.015, INPUT_ONLY: 0.001, MODEL_ONLY: 0.010, "host-fed": 0.015},
    "compute-bound": {BASELINE: 0.010, INPUT_ONLY: 0.0002, MODEL_ONLY: 0.010, "batch:4": 0.040},
}  # fmt: skip


def declared_run(entry: Entry, device: str, steps: dict[str, float]) -> Run:
    """Play a workload whose tuned variant changes what its declaration says, twice as fast as it was."""
    spec = Spec(device="cpu" if device == "cpu" else "gpu", gpus=int(device != "cpu"))
    pipeline = bool(entry.workload.stages) or entry.workload.data.kind == "jpeg"
    load = None if device == "cpu" else GpuLoad(util=98 if steps.get("batch:4") == 0.040 else 5, power_w=200)
    variants = {**steps, TUNED: steps[BASELINE] / 2}
    speeds = {
        variant: VariantSpeed(step_s=step_s, batch=32 * (4 if variant == "batch:4" else 1), load=load)
        for variant, step_s in variants.items()
    }
    made = run({device: speeds}, name=entry.workload.name, trials=1, windows=1)
    told = VariantInfo(
        variant=TUNED,
        params=variant_params(entry.workload, spec, TUNED, pipeline=pipeline),
        changes=tuple(variant_changes(entry.workload, spec, TUNED, pipeline=pipeline)),
    )
    trials = tuple(
        replace(each, variants=tuple(told if one.variant == TUNED else one for one in each.variants))
        for each in made.trials
    )
    return replace(made, trials=trials, workloads=(entry.workload,))


@pytest.mark.parametrize("rule", HELD_BACK)
@pytest.mark.parametrize("device", ["cpu", "gpu0"])
@pytest.mark.parametrize("entry", built_in(), ids=lambda entry: entry.workload.name)
def test_every_rule_shows_what_each_workload_declares(entry: Entry, device: str, rule: str) -> None:
    made = declared_run(entry, device, HELD_BACK[rule])
    found = [one for one in analyse(made).verdicts if one.finding is Finding.FOUND and one.remedy is not None]
    if device != "cpu" or rule not in ("copy-bound", "compute-bound", "launch-bound"):
        assert rule in {one.rule for one in found}
    (tuned,) = (one for one in made.trials[0].variants if one.variant == TUNED)
    changed = {one.what for one in tuned.changes}
    for one in found:
        remedy = one.remedy
        assert remedy is not None
        if one.rule == "not-learning" or entry.workload.image != "tensorflow":
            assert "model.compile" not in remedy.code
            continue
        ast.parse(remedy.code if one.rule != "contended-host" else "")
        assert ("GPU" in remedy.code) <= (device != "cpu")
        assert ("train_step" in remedy.code) <= (entry.workload.task == "train")
        if not remedy.measured_variant:
            continue
        for name, value in shown(remedy.code).items():
            if name in changed or ("x, y = tf.constant" in remedy.code and name in tuned.params):
                given = tuned.params[name]
                assert str(value) in (str(given), {True: "on", False: "off", None: "False"}.get(given))
