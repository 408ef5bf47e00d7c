from pathlib import Path

import pytest

from harness.data.tables import TableRecipe
from harness.progress import Silent
from workloads.protocol import BASELINE, INPUT_ONLY, NO_GPU_EXIT, TREES, TUNED, Data

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
    def run(**spec):
        defaults = {"file": "trees.py", "workload": "higgs-trees", "variants": [BASELINE], "image": TREES}
        return drive_trees(**{**defaults, "data_dir": str(table), **spec})

    return run


@pytest.fixture(scope="module")
def outcome(boosted):
    return boosted(variants=VARIANTS, steps=10, window_s=30.0)


def test_a_step_is_a_boosting_round_over_all_rows_and_trees_learn(outcome):
    for variant in VARIANTS:
        windows = outcome.of("window", variant=variant)
        assert [(each["samples"], each["steps"]) for each in windows] == [(10 * ROWS, 10)] * 2
    for variant in (BASELINE, TUNED):
        assert outcome.metric(variant, "accuracy") > 0.65
        assert 0 < outcome.metric(variant, "steps_trained") <= 100


def test_facts_and_changes_of_tuned(outcome):
    (facts,) = outcome.of("facts")
    assert facts["facts"]["xgboost"]
    assert "tensorflow" not in facts["facts"]
    (variant,) = outcome.of("variant", variant=TUNED)
    assert {change["what"] for change in variant["changes"]} == {"matrix", "evaluate", "max_bin"}
    assert "feed" not in variant["params"]


def test_batch_size_limits_the_rows_of_a_round(boosted):
    assert boosted(params={"batch_size": 1000}).per_step() == {BASELINE: 1000}


def test_a_gpu_trial_without_a_gpu_is_an_error(boosted):
    done = boosted(device="gpu", gpus=1, code=NO_GPU_EXIT)
    assert done.of("window") == []
    (error,) = done.of("error")
    assert error["type"] == "NoGpuError"


def test_a_file_without_a_booster_function_is_an_error(boosted, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "from workloads.protocol import Data, Workload\n"
        "workload = Workload(name='mine', title='', batch_size=1, epochs=1, image='trees',\n"
        "    data=Data(name='t', shape=(28,), classes=2, train=1, test=1))\n"
    )
    done = boosted(file=str(path), workload="mine", code=1)
    (error,) = done.of("error")
    assert "booster(params)" in error["message"]
