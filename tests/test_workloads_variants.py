"""Which variants are measured: what applies to a call and a device, and what earlier results leave to ask."""

from types import SimpleNamespace

import pytest

from workloads.driver import ladder
from workloads.driver.variants import applies, skipped, worth_trying
from workloads.protocol import (
    BASELINE,
    CUSTOM_LOOP,
    HOST_FED,
    INPUT_ONLY,
    MODEL_ONLY,
    STAGES,
    WITHOUT_COPY,
    WITHOUT_FRAMEWORK,
    WITHOUT_INPUT,
    WITHOUT_LAUNCH,
    Edit,
    Fix,
    Spec,
)

TRAINING = {"epochs": 1}
ALL = {
    INPUT_ONLY, MODEL_ONLY, CUSTOM_LOOP, HOST_FED, "batch:4", "calls:10", WITHOUT_FRAMEWORK, WITHOUT_LAUNCH,
    WITHOUT_INPUT, STAGES, WITHOUT_COPY, "threads:1",
}  # fmt: skip
GPU_ONLY, PIPELINE = {HOST_FED, WITHOUT_COPY}, {STAGES, "threads:1", WITHOUT_COPY}


def job(
    arguments=TRAINING, *, pipeline=True, python=False, step_ms=None, waits=None, eager=False, steps=0, **spec
):
    """Return a job as far as the choice of variants reads it."""
    fields = {"device": "gpu", "gpus": 1, "steps": steps, **spec}
    shared = SimpleNamespace(
        step_ns={name: value * 1e6 for name, value in (step_ms or {}).items()}, wait_share=waits, eager=eager,
        callbacks=False,
    )  # fmt: skip
    return SimpleNamespace(
        spec=Spec(scripts={}, **fields), gpu=fields["device"] == "gpu", shared=shared,
        call=SimpleNamespace(arguments=arguments, is_pipeline=pipeline, in_python=python, samples_per_epoch=0),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("made", "missing"),
    [
        (job(), set()),
        (job(device="cpu", gpus=0), GPU_ONLY),
        (job(pipeline=False), PIPELINE),
        (job(pipeline=False, python=True), PIPELINE - {STAGES}),
        (job(gpus=4), ALL - {INPUT_ONLY, MODEL_ONLY, WITHOUT_INPUT, STAGES, "threads:1"}),
        (job({}, pipeline=False), ALL - {MODEL_ONLY, "batch:4"}),
    ],
)
def test_what_applies_to_a_call_and_a_device(made, missing):
    assert {variant for variant in ALL if not applies(made, variant)} == missing


@pytest.mark.parametrize(
    ("variant", "made", "measured"),
    [
        (WITHOUT_INPUT, job(step_ms={BASELINE: 10, MODEL_ONLY: 5}, waits=0.4), True),
        (WITHOUT_INPUT, job(step_ms={BASELINE: 10, MODEL_ONLY: 10}, waits=0.01), False),
        (STAGES, job(step_ms={BASELINE: 10, MODEL_ONLY: 10}, waits=0.01), False),
        (STAGES, job(step_ms={BASELINE: 10, MODEL_ONLY: 10}, waits=0.01, steps=4), True),
        (STAGES, job(step_ms={BASELINE: 10, CUSTOM_LOOP: 10, MODEL_ONLY: 5}, waits=0.01), True),
        ("batch:4", job(step_ms={BASELINE: 500, MODEL_ONLY: 400}), False),
        ("batch:2", job(step_ms={BASELINE: 500, MODEL_ONLY: 400}), True),
        (WITHOUT_LAUNCH, job(step_ms={BASELINE: 10, MODEL_ONLY: 9, "calls:10": 3}), True),
        (WITHOUT_LAUNCH, job(step_ms={BASELINE: 10, MODEL_ONLY: 9, "calls:10": 8.9}), False),
        (WITHOUT_LAUNCH, job(step_ms={BASELINE: 10, MODEL_ONLY: 9}, eager=True), False),
        (WITHOUT_COPY, job(step_ms={BASELINE: 10, MODEL_ONLY: 9, HOST_FED: 9.1}), False),
        (WITHOUT_FRAMEWORK, job(step_ms={BASELINE: 10, MODEL_ONLY: 9}), False),
        (WITHOUT_FRAMEWORK, job(step_ms={BASELINE: 10, MODEL_ONLY: 9}, eager=True), True),
    ],
)
def test_what_earlier_results_leave_to_ask(variant, made, measured):
    assert (skipped(made, variant) == "") is measured


@pytest.mark.parametrize(
    ("answers", "made", "tried"),
    [
        ("input", job(step_ms={BASELINE: 10, MODEL_ONLY: 5, CUSTOM_LOOP: 10}, waits=0.4), True),
        ("input", job(step_ms={BASELINE: 10, MODEL_ONLY: 10, CUSTOM_LOOP: 10}, waits=0.0), False),
        ("loader", job(step_ms={BASELINE: 10, MODEL_ONLY: 5, CUSTOM_LOOP: 10}, waits=0.4), False),
        ("loader", job(step_ms={BASELINE: 10, MODEL_ONLY: 5, CUSTOM_LOOP: 10}, waits=0.4, python=True), True),
        ("framework", job(step_ms={BASELINE: 10, MODEL_ONLY: 5, CUSTOM_LOOP: 6}), True),
        ("launch", job(step_ms={BASELINE: 10, MODEL_ONLY: 10, CUSTOM_LOOP: 10, "calls:10": 5}), True),
        ("launch", job(step_ms={BASELINE: 10, MODEL_ONLY: 10, CUSTOM_LOOP: 10, "calls:10": 10}), False),
        ("eager", job(step_ms={BASELINE: 10, MODEL_ONLY: 5}, eager=True), True),
        ("device", job(step_ms={BASELINE: 10, MODEL_ONLY: 5}, eager=True), False),
        ("batch", job(step_ms={BASELINE: 10, MODEL_ONLY: 10, "batch:4": 12}), True),
        ("batch", job(step_ms={BASELINE: 10, MODEL_ONLY: 10, "batch:4": 40}), False),
        ("input", job(gpus=2), False),
        ("input", job(), True),
    ],
)
def test_remedies_that_answer_a_part_of_the_step(answers, made, tried):
    assert worth_trying(made, answers) is tried


TEXT = "model.compile('ädam')\nmodel.fit(x)\n"
PLACE = len("model.compile('ädam'".encode())
XLA, SEVERAL = (
    Fix(edits=(Edit(start=PLACE, end=PLACE, text=each),), answers="device")
    for each in (", jit_compile=True", ", steps_per_execution=10")
)
RENAMED = Fix(edits=(Edit(start=0, end=5, text="net"),), answers="input")


def test_remedies_are_applied_alone_and_together():
    assert ladder.applied(TEXT, [XLA]) == TEXT.replace("'ädam'", "'ädam', jit_compile=True")
    first = ladder.applied(TEXT, [XLA, SEVERAL]).splitlines()[0]
    assert "jit_compile=True" in first and "steps_per_execution=10" in first
    compile(first, "train.py", "exec")
    assert ladder.applied(TEXT, [XLA, XLA]) == ladder.applied(TEXT, [XLA])
    other = Fix(edits=(Edit(start=3, end=7, text="x"),), answers="input")
    with pytest.raises(ValueError, match="same place"):
        ladder.applied(TEXT, [RENAMED, other])


def test_remedies_that_gained_are_combined_from_the_largest_gain_on():
    fixes = {"fix:a": XLA, "fix:b": SEVERAL, "fix:c": RENAMED, "fix:batch": Fix(edits=(), answers="batch")}
    times = {BASELINE: 100.0, "fix:a": 80.0, "fix:b": 50.0, "fix:c": 99.0, "fix:batch": 10.0}
    assert ladder.candidates(fixes, times) == ["fix:b", "fix:a"]
    assert ladder.together(["fix:b", "fix:a"]) == "fix:b+a"


def test_the_diff_of_a_script_applies_to_it():
    after = ladder.applied(TEXT, [XLA])
    diff = ladder.difference(TEXT, after, "train.py", "tuned.py").splitlines()
    assert diff[:2] == ["--- train.py", "+++ tuned.py"]
    assert [line for line in diff[3:] if line[0] != " "] == [
        f"-{TEXT.splitlines()[0]}",
        f"+{after.splitlines()[0]}",
    ]
    assert ladder.difference(TEXT, TEXT, "a", "b") == ""
