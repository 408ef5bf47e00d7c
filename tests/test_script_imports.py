from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.notebooks import plain_script
from harness.run.imports import check_names, check_trains, distributions, neighbours
from tests.folders import write_files

LOOP = "import tensorflow as tf\nfor batch in data:\n    with tf.GradientTape() as tape:\n        pass\n"


def is_refused(path: Path, text: str) -> bool:
    try:
        check_trains(path.parent, path, text)
    except UsageError as error:
        assert "# tfbench: step BATCH_SIZE" in error.hint
        return True
    return False


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        (LOOP, True),
        (f"{LOOP}# we fit and predict\nmodel.train_on_batch(x, y)\n", True),
        (f"{LOOP}    # tfbench: step 32\n", False),
        ("model.fit(x, y)\n", False),
        ("getattr(model, method)(x)\n", False),
        ("getattr(model, 'fit')(x)\n", False),
        ("import keras_tuner\nkeras_tuner.RandomSearch(build).search(x, y)\n", False),
        ("exec(open('train.py').read())\n", False),
        ("from helper import train\ntrain()\n", False),
        ("from quiet import train\ntrain()\n", True),
        ("from marking import train\ntrain()\n", False),
        ("from pkg import part\npart.train()\n", False),
        ("def broken(:\n", True),
    ],
)
def test_scripts_that_certainly_have_no_call(tmp_path: Path, text: str, refused: bool) -> None:
    files = {
        "helper.py": "import deeper\ndef train(): deeper.train()\n",
        "deeper.py": "def train(): model.fit(1)\n",
        "quiet.py": "def train(): pass\n",
        "marking.py": "def train():\n    while True: pass  # tfbench: step 8\n",
        "pkg/__init__.py": "",
        "pkg/part.py": "from .other import train\n",
        "pkg/other.py": "from .. import nothing\ndef train(): model.fit(1)\n",
    }
    write_files(tmp_path, files)
    assert is_refused(tmp_path / "train.py", text) is refused


def test_what_keras_no_longer_has_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="fit_generator") as raised:
        check_trains(tmp_path, tmp_path / "train.py", "model.fit_generator(flow, 9)\n")
    assert "Call fit," in str(raised.value.hint)


def test_another_framework_is_named(tmp_path: Path) -> None:
    text = "import torch\nfor batch in data:\n    model(batch).backward()\n"
    with pytest.raises(UsageError, match="imports torch, and neither Keras nor TensorFlow"):
        check_trains(tmp_path, tmp_path / "train.py", text)
    assert is_refused(tmp_path / "train.py", f"import keras\n{text}")


def test_the_script_that_another_one_starts_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as raised:
        check_trains(
            tmp_path, tmp_path / "run.py", "import subprocess\nsubprocess.run(['python', 'train.py'])\n"
        )
    assert str(raised.value.hint).endswith("If it starts another script, give that one.")


def test_a_notebook_that_starts_a_script_is_told_to_give_that(tmp_path: Path) -> None:
    text = plain_script("get_ipython().system('python3 train.py')\n")
    with pytest.raises(UsageError) as raised:
        check_trains(tmp_path, tmp_path / "run.ipynb", text)
    assert str(raised.value.hint).endswith("If it starts another script, give that one.")


def test_neighbours_are_those_that_the_script_imports(tmp_path: Path) -> None:
    write_files(
        tmp_path, {"a.py": "import b\n", "b.py": "import a\n", "c.py": "", "p/__init__.py": "", "p/d.py": ""}
    )
    found = neighbours(tmp_path, tmp_path / "train.py", "import a\nfrom p.d import x\n")
    assert {str(path.relative_to(tmp_path)) for path in found} == {"a.py", "b.py", "p/__init__.py", "p/d.py"}


def test_distributions_of_what_is_imported(tmp_path: Path) -> None:
    write_files(tmp_path, {"mine.py": "import yaml\n"})
    text = (
        "import os, pandas as pd, mine\nfrom sklearn.model_selection import train_test_split\nimport keras\n"
        "import matplotlib.pyplot as plt\nimport cv2\nimport tensorflow_datasets as tfds\n"
    )
    assert distributions(tmp_path, tmp_path / "train.py", text) == [
        "opencv-python-headless", "pandas", "pyyaml", "scikit-learn", "tensorflow-datasets"]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "beside", "refused"),
    [
        ("import workloads\n", {"workloads/__init__.py": ""}, True),
        ("from workloads.data import load\n", {"workloads/data.py": ""}, True),
        ("import helper\n", {"helper.py": "import workloads\n", "workloads.py": ""}, True),
        ("import workloads\n", {}, False),
        ("import helper\n", {"helper.py": "", "workloads.py": ""}, False),
    ],
)
def test_a_neighbour_with_the_name_of_the_driver_is_refused(
    tmp_path: Path, text: str, beside: dict[str, str], refused: bool
) -> None:
    write_files(tmp_path, beside)
    try:
        check_names(tmp_path, tmp_path / "train.py", text)
    except UsageError as error:
        assert refused and "Rename" in error.hint
    else:
        assert not refused
