from pathlib import Path

import pytest

from harness.data.generated import TableRecipe
from harness.model.workload import Data
from harness.progress import Silent
from harness.run.catalogue import built_in
from harness.run.scripts import script_text
from workloads.protocol import NO_GPU_EXIT, SAMPLES_TRAINED, TREES
from workloads.variants import BASELINE, INPUT_ONLY, TUNED, measures_speed

pytestmark = pytest.mark.tensorflow

ROWS, HELD_OUT = 20_000, 5_000
VARIANTS = (BASELINE, INPUT_ONLY, TUNED, "opt:quantile")


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("table")
    data = Data(name="t", shape=(28,), classes=2, train=ROWS, test=HELD_OUT, dtype="float32", kind="table")
    with Silent().task("", None) as bar:
        TableRecipe(data, 1).write(folder, bar)
    return folder


@pytest.fixture(scope="module")
def boosted(drive_trees, table):
    def run(variants=(BASELINE,), change=lambda text: text, **spec):
        (workload,) = (e.workload for e in built_in() if e.workload.name == "higgs-trees")
        scripts = {each: script_text(workload, each, "cpu", {"DATA": str(table)})[1]
                   for each in variants if measures_speed(each)}  # fmt: skip
        return drive_trees(
            change(scripts.pop(BASELINE)), others=scripts, variants=list(variants), **{"image": TREES, **spec}
        )

    return run


@pytest.fixture(scope="module")
def outcome(boosted):
    return boosted(VARIANTS, steps=10, window_s=30.0)


def test_a_step_is_a_boosting_round_over_all_rows_and_trees_learn(outcome):
    for variant in VARIANTS:
        windows = outcome.of("window", variant=variant)
        assert [(each["samples"], each["steps"]) for each in windows] == [(10 * ROWS, 10)] * 2
    for variant in (BASELINE, TUNED):
        assert outcome.metric(variant, "accuracy") > 0.65
        assert 0 < outcome.metric(variant, SAMPLES_TRAINED) <= 100 * ROWS


def test_facts_and_changes_of_tuned(outcome):
    (facts,) = outcome.of("facts")
    assert facts["facts"]["xgboost"]
    assert "tensorflow" not in facts["facts"]
    (variant,) = outcome.of("variant", variant=TUNED)
    assert {change["what"] for change in variant["changes"]} == {"max_bin"}
    (chosen,) = outcome.of("variant", variant=BASELINE)
    params = chosen["params"]
    assert (params["batch_size"], params["epochs"], params["samples_per_epoch"]) == (ROWS, 100, ROWS)
    (script,) = outcome.of("script", variant=TUNED)
    assert "+    train = xgboost.QuantileDMatrix" in script["diff"]


def test_a_script_may_close_its_streams_and_run_its_own_rounds(boosted):
    closed = "import os, sys\nsys.stdout.close()\nos.close(2)\nprint = str\n"
    done = boosted(change=lambda text: f"{closed}{text}".replace(', evals=[(test, "test")]', ""), steps=3)
    assert done.of("window")
    failed = boosted(change=lambda text: f"{closed}raise KeyError('mine')\n{text}", code=1)
    assert "KeyError: 'mine'" in failed.message
    whole = boosted(change=lambda text: text.replace("ROUNDS = 100", "ROUNDS = 7"), full=True)
    assert whole.metric(BASELINE, SAMPLES_TRAINED) == 7 * ROWS
    assert whole.metric(BASELINE, "training_s") > 0


def test_early_stopping_does_not_end_a_measurement_and_another_callback_says_why(boosted):
    stopping = (
        'early_stopping_rounds=1, callbacks=[xgboost.callback.EarlyStopping(1)], evals=[(test, "test")]'
    )
    # More rounds than the script asks for.
    done = boosted(
        change=lambda text: text.replace('evals=[(test, "test")]', stopping).replace(
            "ROUNDS = 100", "ROUNDS = 15"
        ),
        steps=10,
        window_s=60.0,
    )
    assert [window["steps"] for window in done.of("window")] == [10, 10]
    own = (
        "class End(xgboost.callback.TrainingCallback):\n    def after_iteration(self, model, epoch, log):\n"
        "        return epoch > 1\nbooster = "
    )
    done = boosted(
        change=lambda text: text.replace("booster = ", own).replace("evals=", "callbacks=[End()], evals="),
        code=1,
    )
    assert "Leave out the callback that ends it" in done.message


def test_a_script_without_training_and_a_missing_gpu_are_errors(boosted):
    done = boosted(change=lambda text: text.partition("booster = ")[0], code=1)
    assert "ended without a call of xgboost.train" in done.message
    done = boosted(device="gpu", gpus=1, code=NO_GPU_EXIT)
    assert done.of("window") == []
    (error,) = done.of("error")
    assert error["type"] == "NoGpuError"
