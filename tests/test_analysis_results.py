"""results.json: valid against the shipped schema for every kind of run, and complete in both directions."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from harness.analysis import analyse
from harness.analysis.results import RESULTS_VERSION, results_document, results_schema
from harness.model.run import Run, Stop
from reports.setup import system_rows
from tests import builders
from tests.builders_sweep import sweep_run

RUNS: tuple[Callable[[], Run], ...] = (
    builders.cpu_run,
    builders.gpu_run,
    builders.four_gpu_run,
    builders.interrupted_run,
    builders.bare_run,
    builders.empty_run,
    builders.failed_run,
    builders.hostile_run,
    sweep_run,
)


def document(run: Run) -> dict[str, Any]:
    """Make the document and pass it through JSON, as a reader gets it."""
    text = json.dumps(results_document(analyse(run)), allow_nan=False)
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def closed(schema: Any) -> Any:
    """Forbid every field that the schema does not name, so that none is written undescribed."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    new = {key: closed(value) for key, value in schema.items()}
    open_ended = ("workload",)
    if "properties" in schema and "required" in schema and "additionalProperties" not in schema:
        new["additionalProperties"] = False
    for name in open_ended:
        if name in new.get("$defs", {}):
            new["$defs"][name].pop("additionalProperties", None)
    return new


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(results_schema())


@pytest.mark.parametrize("build", RUNS, ids=lambda build: build.__name__)
def test_every_kind_of_run_is_valid(build: Callable[[], Run]) -> None:
    Draft202012Validator(results_schema()).validate(document(build()))


@pytest.mark.parametrize("build", RUNS, ids=lambda build: build.__name__)
def test_no_field_is_written_that_the_schema_does_not_describe(build: Callable[[], Run]) -> None:
    Draft202012Validator(closed(results_schema())).validate(document(build()))


@pytest.mark.parametrize("path", ["summaries", "verdicts", "schema_version", "gpus"])
def test_the_schema_refuses_what_is_missing(path: str) -> None:
    whole = document(builders.gpu_run())
    del whole[path]
    assert not Draft202012Validator(results_schema()).is_valid(whole)


def test_the_schema_refuses_wrong_types_and_words() -> None:
    valid = Draft202012Validator(results_schema()).is_valid
    for change in (
        lambda doc: doc["summaries"][0].update(batch_size=0),
        lambda doc: doc["summaries"][0]["throughput_samples_per_s"].update(median=None),
        lambda doc: doc["verdicts"][0].update(finding="maybe"),
        lambda doc: doc["trials"][0].update(status="fine"),
        lambda doc: doc.update(schema_version=RESULTS_VERSION + 1),
    ):
        broken = document(builders.gpu_run(trials=1))
        assert valid(broken)
        change(broken)
        assert not valid(broken)


def test_what_is_unknown_is_null() -> None:
    one = document(builders.bare_run())["summaries"][0]
    assert one["energy_j_per_sample"] is None
    assert one["accuracy"] is None
    assert one["throughput_samples_per_s"]["low"] is None
    assert one["throughput_samples_per_s"]["n"] == 1


def test_numbers_that_json_has_not_become_null() -> None:
    run = builders.cpu_run(trials=1)
    run = replace(run, trials=(replace(run.trials[0], sampling={"ticks": float("nan")}),))
    assert document(run)["trials"][0]["sampling"] == {"ticks": None}


def test_the_frameworks_come_from_the_containers_and_the_page_has_the_same() -> None:
    run = builders.cpu_run(trials=2)
    trees = replace(run.trials[1], facts={"xgboost": "3.0.0"})
    bare = replace(run.manifest, system={**run.manifest.system, "framework": ""})
    run = replace(run, manifest=bare, trials=(run.trials[0], trees))
    assert document(run)["system"]["framework"] == "TensorFlow 2.21.0, XGBoost 3.0.0"
    assert dict(system_rows(run))["framework"] == "TensorFlow 2.21.0, XGBoost 3.0.0"


def test_why_repeating_stopped_is_there() -> None:
    stop = Stop(workload="cifar100-mlp", device="cpu", trials=5, reason="interval narrow enough")
    found = document(replace(builders.cpu_run(), stops=(stop,)))["stops"]
    assert found == [
        {
            "workload": "cifar100-mlp",
            "device": "cpu",
            "trials": 5,
            "reason": "interval narrow enough",
            "point": {},
        }
    ]


def test_the_same_run_gives_the_same_document() -> None:
    assert document(builders.four_gpu_run()) == document(builders.four_gpu_run())
