"""The built-in scripts: they run as they stand, learn, and have the published models."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

import pytest

from harness.data.datasets import ensure_data
from harness.model.workload import Data, Workload
from harness.progress import Silent
from harness.run.catalogue import built_in
from harness.run.scripts import script_text
from tests.conftest import ROOT
from workloads.protocol import TENSORFLOW
from workloads.variants import BASELINE, INPUT_ONLY, OPTIMIZATION, TUNED

pytestmark = pytest.mark.tensorflow

WORKLOADS = {e.workload.name: e.workload for e in built_in() if e.workload.image == TENSORFLOW}
# Constants that make a step short.
SMALL: Mapping[str, Mapping[str, Any]] = {
    "cats-dogs": {"SIDE": 32, "QUEUE_SIZE": 2},
    "cats-dogs-128": {"BATCH_SIZE": 4},
    "cats-dogs-deep": {"BATCH_SIZE": 2, "SIDE": 64},
    "cifar10-cnn": {"BATCH_SIZE": 64, "THREADS": 2},
    "imdb-lstm": {"BATCH_SIZE": 4, "LENGTH": 16},
    "resnet50": {"BATCH_SIZE": 1, "BATCHES": 6},
    "resnet50-infer": {"BATCH_SIZE": 1},
    "transfer-learning": {"BATCH_SIZE": 4, "SIDE": 32},
    "from-scratch": {"BATCH_SIZE": 4, "SIDE": 32},
    "gpt2-generate": {"SIZE": "tiny", "PROMPT": 16, "NEW_TOKENS": 4, "JIT_COMPILE": False},
    "recommender": {"BATCH_SIZE": 512, "MAX_ROWS": 1000, "BOTTOM": (64,), "TOP": (64,), "EMBEDDING": 16},
}
# Steps a window, and the accuracy reached after them; chance is 0.5, 0.1 or 0.01.
LEARNED = {
    "cats-dogs": (32, 0.55), "cifar10-mlp": (16, 0.3), "cifar100-mlp": (30, 0.05), "cifar10-cnn": (24, 0.2),
    "recommender": (60, 0.58),
}  # fmt: skip
# Its ladder runs too; rungs of the others are the same two scripts with other constants.
LADDER = "cifar100-mlp"
Serve = Callable[[Data], str]


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Serve:
    """Return the folder of a small procedural data set in the shape of another."""
    cache = tmp_path_factory.mktemp("served")

    def served(data: Data) -> str:
        jpeg = {"shape": (90, 101, 3)} if data.kind == "jpeg" else {}
        sizes = {"jpeg": (600, 100), "clicks": (65_536, 4096)}.get(data.kind, (2000, 300))
        small = replace(data, train=sizes[0], test=sizes[1], **jpeg)
        return str(ensure_data(small, cache, "procedural", 1, Silent())[0])

    return served


def texts(workload: Workload, variants: list[str], places: Mapping[str, str]) -> dict[str, str]:
    params = {**SMALL.get(workload.name, {}), **places}
    return {variant: script_text(workload, variant, "cpu", params)[1] for variant in variants}


def run(drive: Any, serve: Serve, name: str, variants: list[str], **more: Any) -> Any:
    workload = WORKLOADS[name]
    folders = {data.name: serve(data) for data in workload.datasets}
    places = {data.constant: folders[data.name] for data in workload.datasets if data.constant}
    scripts = texts(workload, [BASELINE, *variants], places)
    requests = workload.requests and asdict(replace(workload.requests, batch_sizes=(1,), bounds_ms=()))
    return drive(
        scripts.pop(BASELINE), others=scripts, requests=requests,
        **{"data": folders, "steps": 2, "windows": 1, "window_s": 0.1, "variants": [BASELINE, *variants], **more},
    )  # fmt: skip


# One of each script: further workloads of a script differ in its constants only, as resnet50-infer and resnet50-serve
# do; the deep network takes a minute, and tests/docker runs the first of the perceptrons.
@pytest.mark.parametrize(
    "name",
    [
        name
        for name in WORKLOADS
        if (ROOT / "workloads" / name).is_dir()
        and name not in ("cats-dogs-deep", "resnet50-infer", "fashion-mnist-mlp")
    ],
)
def test_published_tuned_and_the_ladder_between_them_run_and_learn(drive, serve, arrays, name):
    workload = WORKLOADS[name]
    rungs = [OPTIMIZATION.of(rung) for rung, each in workload.ladder.items() if each.device != "gpu"]
    rungs = rungs if name == LADDER else []
    steps, least = LEARNED.get(name, (2, 0.0))
    # Windows end early after ten times their length: all steps must fit into it on a busy host too.
    more: dict[str, Any] = {"steps": steps, "window_s": 2.0} if least else {}
    # Without an accuracy to reach, a network would be compiled once more for it.
    more["evaluate"] = bool(least)
    if name.endswith("-mlp"):
        # Perceptrons learn noisy patterns sooner than the procedural pictures; convolutions do not.
        (data,) = workload.datasets
        more["data"] = {data.name: arrays(data.shape, data.classes, 4000)}
    done = run(drive, serve, name, [*([TUNED] if workload.tuned else []), *rungs], **more)
    assert done.of("left-out") == []
    per_step = done.per_step()
    chosen = {each["variant"]: each["params"] for each in done.of("variant")}
    for variant, params in chosen.items():
        samples = params["batch_size"] * params.get("new_tokens", 1) if "batch_size" in params else None
        assert per_step[variant] == pytest.approx(samples or per_step[variant], rel=0.3)
    assert chosen[BASELINE]["jit_compile"] is False
    changed = {each["variant"]: each["changes"] for each in done.of("variant")}
    diffs = {each["variant"]: each["diff"] for each in done.of("script")}
    assert all(changed[variant] or diffs[variant] for variant in rungs), "a rung that changes nothing"
    if least:
        assert min(done.metric(variant, "accuracy") for variant in (BASELINE, TUNED)) > least


@pytest.mark.parametrize("name", WORKLOADS)
def test_every_rung_changes_the_published_script(name):
    workload = WORKLOADS[name]
    for rung, each in workload.ladder.items():
        device = each.device or "cpu"
        scripts = [
            script_text(workload, variant, device, {})[1] for variant in (BASELINE, OPTIMIZATION.of(rung))
        ]
        assert scripts[0] != scripts[1], rung


def test_the_published_loader_is_what_cats_and_dogs_waits_for(drive, serve):
    done = run(drive, serve, "cats-dogs", [INPUT_ONLY])
    (drained,) = done.of("window", variant=INPUT_ONLY)
    assert drained["wait_ns"] > 0.8 * (drained["end_ns"] - drained["start_ns"])


INSPECT = """
import json
from contextlib import suppress
import keras
from workloads.driver.interception import Interception
from workloads.driver import script, stand_ins
from workloads.protocol import Script
def described(layer):
    sizes = [getattr(layer, name, None) for name in ("filters", "units", "rate")]
    activation = getattr(getattr(layer, "activation", None), "__name__", "")
    return " ".join(str(part) for part in (type(layer).__name__, *sizes, activation) if part)
def end():
    raise KeyboardInterrupt
models = {}
for name, path, text, data in WHAT:
    keras.backend.clear_session()
    took = Interception(
        number=1, predicts=False, first=False, replicas=1, take=print, evaluate=None, rest=None, end=end
    )  # fmt: skip
    with suppress(script.ScriptError), took.active(), stand_ins.mounted(data, ()):
        script.run(Script(path=path, text=text), (), {})
    model = took.call.model
    models[name] = {
        "layers": [described(layer) for layer in model.layers], "parameters": model.count_params(),
        "setup": [type(took.call.model.optimizer).__name__, took.call.model.loss, list(model.input_shape[1:])],
        "trainable": len(model.trainable_weights),
    }
print()
print(json.dumps(models))
"""
POOLED = "MaxPooling2D"
SIGMOID = "Dense 1 sigmoid"
BINARY = ("Adam", "binary_crossentropy")
SPARSE = "sparse_categorical_crossentropy"


def dense(*units: int, last: str) -> list[str]:
    return [*(f"Dense {count} relu" for count in units), last]


def convolutions(*filters: int) -> list[str]:
    layers = (layer for count in filters for layer in (f"Conv2D {count} relu", POOLED))
    return [*layers, "Flatten", "Dense 128 relu"]


def normalised(*groups: tuple[int, int]) -> list[str]:
    block = "Conv2D {} linear", "BatchNormalization", "ReLU"
    layers = []
    for count, filters in groups:
        layers += [*[each.format(filters) for each in block] * count, POOLED]
    return layers


# Workload -> layers, (optimizer, loss, input shape), number of parameters if known.
PUBLISHED = {
    "cifar100-mlp": (
        ["Flatten", *dense(512, 256, last="Dense 100 softmax")], ("Adam", "categorical_crossentropy", [32, 32, 3]),
        3073 * 512 + 513 * 256 + 257 * 100),
    "cifar10-mlp": (
        ["Flatten", *dense(3000, 1000, last="Dense 10 sigmoid")], ("SGD", SPARSE, [32, 32, 3]),
        3073 * 3000 + 3001 * 1000 + 1001 * 10),
    "fashion-mnist-mlp": (
        ["Flatten", *dense(*[500] * 5, last="Dense 10 sigmoid")], ("Adam", SPARSE, [28, 28]),
        785 * 500 + 4 * 501 * 500 + 501 * 10),
    "cats-dogs": ([*convolutions(32, 32), "Dropout", SIGMOID], (*BINARY, [64, 64, 3]), None),
    "cats-dogs-3conv": ([*convolutions(32, 32, 64), "Dropout", SIGMOID], (*BINARY, [64, 64, 3]), None),
    "cats-dogs-dropout": ([*convolutions(32, 32, 64), "Dropout 0.5", SIGMOID], (*BINARY, [64, 64, 3]), None),
    "cats-dogs-128": ([*convolutions(64, 64, 64), "Dropout 0.5", SIGMOID], (*BINARY, [128, 128, 3]), None),
    "cats-dogs-deep": (
        [*normalised((6, 32), (6, 64), (7, 128), (7, 256), (6, 256)), "GlobalAveragePooling2D", SIGMOID],
        (*BINARY, [128, 128, 3]), None),
    "imdb-pooled": (
        ["Embedding", "Dropout 0.2", "GlobalAveragePooling1D", "Dropout 0.2", SIGMOID], (*BINARY, [250]),
        10_000 * 16 + 16 + 1),
    "imdb-lstm": (
        ["Embedding", "Bidirectional", "Bidirectional", SIGMOID], (*BINARY, [200]),
        20_000 * 128 + 4 * 4 * 64 * (128 + 64 + 1) + 129),
}  # fmt: skip
# Preprocessing on the device, which published scripts do on the host.
ON_DEVICE = {"Rescaling", "RandomWarp"}


@pytest.fixture(scope="module")
def models(execute, serve):
    what = []
    for name in PUBLISHED:
        workload = WORKLOADS[name]
        folders = {data.name: serve(data) for data in workload.datasets}
        places = {data.constant: folders[data.name] for data in workload.datasets if data.constant}
        for variant in (BASELINE, TUNED):
            file, text = script_text(workload, variant, "gpu", places)
            path = next(e.path for e in built_in() if e.workload.name == name).parent / file
            what.append((f"{name} {variant}", str(path), text, folders))
    return execute(INSPECT.replace("WHAT", repr(what)))


@pytest.mark.parametrize("name", PUBLISHED)
def test_both_train_the_published_model(models, name):
    layers, setup, parameters = PUBLISHED[name]
    for variant in (BASELINE, TUNED):
        model = models[f"{name} {variant}"]
        assert [layer for layer in model["layers"] if layer not in ON_DEVICE] == layers
        assert tuple(model["setup"]) == setup
        assert parameters in (None, model["parameters"])


def test_transfer_learning_trains_only_the_head_of_the_same_network(execute, serve):
    what = []
    for name in ("transfer-learning", "from-scratch"):
        path = next(e.path for e in built_in() if e.workload.name == name)
        folders = {data.name: serve(data) for data in WORKLOADS[name].datasets}
        what.append((name, str(path), script_text(WORKLOADS[name], BASELINE, "cpu", {})[1], folders))
    frozen, whole = execute(INSPECT.replace("WHAT", repr(what))).values()
    assert frozen["layers"] == whole["layers"]
    assert frozen["parameters"] == whole["parameters"] == 2_257_984 + 12_810
    assert frozen["trainable"] == 2
    assert whole["trainable"] > 100
