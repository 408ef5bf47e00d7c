import numpy as np
import pytest

from workloads.protocol import BASELINE, TUNED

pytestmark = pytest.mark.tensorflow

SAME = """
import json, sys
from workloads import imdb
from workloads.driver import pipeline
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


def test_pipeline_and_arrays_have_the_same_preprocessing(script, reviews):
    result = script(SAME.replace("FOLDER", repr(str(reviews))))
    assert result["same"]
    assert result["first"] == [[0, 0, 0, 1, 4, 2], [11, 12, 13, 14, 15, 16]]
    assert result["names"] == result["declared"]


def test_training_from_pipeline_and_arrays_reports_the_recurrent_kernel(drive, reviews):
    done = drive(
        file="imdb.py", workload="imdb-lstm", variants=[BASELINE, TUNED, "stage:pad"], data_dir=str(reviews),
        params={"length": 8, "words": 90, "batch_size": 8}, steps=2,
    )  # fmt: skip
    assert {event["variant"] for event in done.of("metric", name="accuracy")} == {BASELINE, TUNED}
    facts = {event["variant"]: event["text"] for event in done.of("fact", name="recurrent kernel")}
    assert facts == dict.fromkeys((BASELINE, TUNED), "generic while loop (While on CPU:0)")
