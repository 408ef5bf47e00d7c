"""The code snippets of suggested fixes run before and after the change."""

from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from reports.fix_cards import LOADER, ON_CPU, SNIPPETS, snippet

pytestmark = pytest.mark.tensorflow

FOLDER = resources.files("reports") / "snippets"
NAMES = sorted(file.name.removesuffix(".diff") for file in FOLDER.iterdir())
# Names that the snippets assume: a small network, arrays, files, and texts of different lengths.
PRELUDE = """
import os
import numpy as np
import tensorflow as tf
tf.keras.utils.set_random_seed(1)
folder = {folder!r}
random = np.random.default_rng(1)
x = random.integers(0, 256, (64, 64, 64, 3)).astype("float32")
y = labels = random.integers(0, 10, 64)
files = []
for number in range(64):
    files.append(os.path.join(folder, f"{{number}}.jpg"))
    tf.io.write_file(files[-1], tf.io.encode_jpeg(tf.cast(x[number], tf.uint8)))
model = tf.keras.Sequential(
    [tf.keras.Input((64, 64, 3)), tf.keras.layers.Conv2D(4, 3, strides=4, activation="relu"),
     tf.keras.layers.Flatten(), tf.keras.layers.Dense(10, activation="softmax")]
)
model.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
texts = [(random.integers(0, 100, random.integers(5, 400)).astype("int32"), number % 2) for number in range(64)]
text_model = tf.keras.Sequential(
    [tf.keras.Input((None,), dtype="int32"), tf.keras.layers.Embedding(100, 8),
     tf.keras.layers.GlobalAveragePooling1D(), tf.keras.layers.Dense(2, activation="softmax")]
)
text_model.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
"""
ENDING = "\nimport json\nprint()\nprint(json.dumps('ran'))\n"


def test_snippets_and_causes_match() -> None:
    assert {*SNIPPETS.values(), LOADER, ON_CPU} == set(NAMES)


def applied(diff: str, *, after: bool) -> str:
    keep = " +" if after else " -"
    return "".join(f"{line[1:]}\n" for line in diff.splitlines() if line[:1] in keep)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("name", NAMES)
def test_a_snippet_runs(name: str, after: bool, script: Callable[[str], Any], tmp_path: Path) -> None:
    code = applied(snippet(name), after=after)
    assert applied(snippet(name), after=not after) != code, "the diff changes something"
    assert script(PRELUDE.format(folder=str(tmp_path)) + code + ENDING) == "ran"
