"""The text classifiers: their layers, one preprocessing in two forms, and the kernel that was placed."""

from __future__ import annotations

import numpy as np
import pytest

from workloads.protocol import BASELINE, TUNED

pytestmark = pytest.mark.tensorflow

LAYERS = """
import json
from workloads import loading, tuning
from workloads.protocol import Spec
found = {}
cudnn = lambda model: [one.forward_layer.use_cudnn for one in model.layers if hasattr(one, "forward_layer")]
for name in ("imdb-pooled", "imdb-lstm"):
    one = loading.load("imdb.py", name)
    params = tuning.variant_params(one.workload, Spec(), "baseline")
    model = one.model(params)
    found[name] = {
        "layers": [type(layer).__name__ for layer in model.layers], "parameters": model.count_params(),
        "optimizer": type(model.optimizer).__name__, "loss": model.loss, "input": list(model.input_shape[1:]),
        "cudnn": cudnn(model),
    }
found["generic"] = cudnn(loading.load("imdb.py", "imdb-lstm").model({**params, "use_cudnn": False}))
print(json.dumps(found))
"""


def test_the_models_are_those_of_the_tutorials(script):
    found = script(LAYERS)
    pooled, lstm = found["imdb-pooled"], found["imdb-lstm"]
    assert pooled["layers"] == ["Embedding", "Dropout", "GlobalAveragePooling1D", "Dropout", "Dense"]
    assert pooled["parameters"] == 10_000 * 16 + 16 + 1
    assert lstm["layers"] == ["Embedding", "Bidirectional", "Bidirectional", "Dense"]
    one = 4 * 64 * (128 + 64 + 1)
    assert lstm["parameters"] == 20_000 * 128 + 2 * one + 2 * one + 129
    assert (pooled["input"], lstm["input"]) == ([250], [200])
    for each in (pooled, lstm):
        assert (each["optimizer"], each["loss"]) == ("Adam", "binary_crossentropy")
    assert (lstm["cudnn"], found["generic"]) == (["auto"] * 2, [False] * 2)


SAME = """
import json, sys
from workloads import imdb, pipeline
folder = FOLDER
params = {"words": 50, "length": 6, "batch_size": 4}
x, y = imdb.in_memory(params, folder, "train")
names = [name for name, _ in imdb.dataset(params, folder)]
rows = [(a.numpy().tolist(), float(b[0])) for a, b in pipeline.assemble(imdb.dataset(params, folder), "cache")]
print(json.dumps({"same": rows == [(a, float(b[0])) for a, b in zip(x.tolist(), y)], "first": x[:2].tolist(),
    "names": names, "declared": list(imdb.SHARED["stages"])}))
"""


@pytest.fixture(scope="module")
def reviews(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reviews")
    random = np.random.default_rng(3)
    for part in ("train", "test"):
        x = random.integers(4, 90, (30, 12)).astype(np.uint16)
        x[np.arange(12) >= random.integers(1, 13, 30)[:, None]] = 0
        x[0] = [1, 4, 60, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        x[1] = range(5, 17)
        np.save(folder / f"x_{part}.npy", x)
        np.save(folder / f"y_{part}.npy", random.integers(0, 2, 30).astype(np.uint8))
    return folder


def test_the_pipeline_and_the_arrays_are_the_same_preprocessing(script, reviews):
    found = script(SAME.replace("FOLDER", repr(str(reviews))))
    assert found["same"]
    assert found["first"] == [[0, 0, 0, 1, 4, 2], [11, 12, 13, 14, 15, 16]]
    assert found["names"] == found["declared"]


def test_a_pipeline_with_arrays_trains_by_both_and_says_which_kernel_ran(drive, reviews):
    done = drive(
        file="imdb.py", workload="imdb-lstm", variants=[BASELINE, TUNED, "stage:pad"], data_dir=str(reviews),
        params={"length": 8, "words": 90, "batch_size": 8}, steps=2,
    )  # fmt: skip
    assert done.code == 0, done.log
    assert {event["variant"] for event in done.of("metric", name="accuracy")} == {BASELINE, TUNED}
    facts = {event["variant"]: event["text"] for event in done.of("fact", name="recurrent kernel")}
    assert facts == dict.fromkeys((BASELINE, TUNED), "the generic while loop (LoopCond on CPU:0)")
