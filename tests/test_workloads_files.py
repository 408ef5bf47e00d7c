from dataclasses import replace

import numpy as np
import pytest

from harness.run import catalogue as catalog
from tests.conftest import ROOT
from workloads.components.rescaling import unit_range
from workloads.driver import tuning, workload_file
from workloads.protocol import OPTIMIZATION_PREFIX, Spec

BUILT_IN = {entry.workload.name: entry.workload for entry in catalog.built_in()}


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_every_optimization_changes_the_baseline_on_some_device(name):
    workload = BUILT_IN[name]
    for optimization in workload.optimizations:
        variant = OPTIMIZATION_PREFIX + optimization
        specs = (Spec(device="cpu"), Spec(device="gpu"))
        assert any(tuning.variant_changes(workload, spec, variant) for spec in specs), variant


def test_the_example_is_short_and_readable_by_the_host():
    path = ROOT / "examples" / "my_workload.py"
    assert len(path.read_text().splitlines()) <= 30
    assert [entry.workload.name for entry in catalog.external(path)] == ["my-cnn"]


def test_default_preprocessing_scales_integers_to_float32_in_0_to_1():
    arrays = {
        "x_train": np.array([[0, 255]], np.uint8), "y_train": np.array([1], np.uint8),
        "x_test": np.array([[51, 102]], np.uint8), "y_test": np.array([0], np.uint8),
    }  # fmt: skip
    (x_train, y_train), (x_test, _) = unit_range(arrays, {})
    assert x_train.dtype == np.float32
    assert x_train.tolist() == [[0.0, 1.0]]
    assert x_test.tolist() == pytest.approx(np.array([[0.2, 0.4]], np.float32))
    assert y_train.tolist() == [1]


STAGES_WITHOUT_DATASET = """
from workloads.protocol import Data, Workload
workload = Workload(name='m', title='', batch_size=1, epochs=1, stages=('read',),
    data=Data(name='x', shape=(1,), classes=2, train=1, test=1))
def model(params): ...
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "no workload"),
        ("workload = 3", "no workload"),
        (None, "not a Python"),
        (STAGES_WITHOUT_DATASET, "both stages"),
    ],
)
def test_invalid_workload_files_are_rejected(tmp_path, text, message):
    path = tmp_path / "mine.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(workload_file.WorkloadFileError, match=message):
        workload_file.load(str(path))


def test_a_file_with_several_workloads_is_loaded_by_name(tmp_path):
    path = tmp_path / "family.py"
    path.write_text(
        "from workloads.protocol import Data, Workload\n"
        "common = dict(title='', batch_size=1, epochs=1, data=Data(name='x', shape=(1,), classes=2, train=1, test=1))\n"
        "workloads = (Workload(name='a', **common), Workload(name='b', builder='second', **common))\n"
        "def model(params): return 1\n"
        "def second(params): return 2\n"
    )
    assert [workload_file.load(str(path), name).model({}) for name in ("a", "b", "")] == [1, 2, 1]
    with pytest.raises(workload_file.WorkloadFileError, match="no workload 'c'"):
        workload_file.load(str(path), "c")


@pytest.mark.parametrize("returned", [("read",), ("batch", "read"), ("read", "batch", "more")])
def test_undeclared_stages_are_rejected(returned):
    declared = replace(BUILT_IN["resnet50"], stages=("read", "batch"))
    workload_file.check_stages(declared, [("read", list), ("batch", list)])
    with pytest.raises(workload_file.WorkloadFileError, match=r"read.*batch"):
        workload_file.check_stages(declared, [(name, list) for name in returned])
