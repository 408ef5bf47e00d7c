"""comparison.json: plain values of all that was compared, and nothing that JSON does not have."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from harness.analysis.gate import gate
from harness.analysis.results import COMPARISON_VERSION, comparison_document
from harness.analysis.versus import versus
from tests.comparisons import again, comparison, fleet, whole

MADE = {
    "two": versus((whole(3), again(whole(3), 1)), reference=0),
    "single trials": versus((again(whole(3), 1, trials=1), again(whole(3), 2, trials=1)), reference=0),
    "many": versus(fleet(25), reference=None),
    "together": comparison("together"),
}


@pytest.mark.parametrize("name", MADE)
def test_every_result_is_in_the_document(name: str) -> None:
    made = MADE[name]
    document = json.loads(json.dumps(comparison_document(made, gate(made, 0.05)), allow_nan=False))
    assert (document["schema"], document["schema_version"]) == ("tfbench-comparison", COMPARISON_VERSION)
    assert len(document["runs"]) == len(made.runs)
    assert [each["speed"]["median"] for each in document["results"]] == [
        each.speed.median for each in made.results
    ]
    assert len(document["gate"]["checks"]) == sum(each.ratio is not None for each in made.results)
    assert bool(document["scaling"]) == (name == "together")


def test_what_is_not_known_is_null() -> None:
    run = replace(whole(3), duration_s=math.nan)
    document = comparison_document(versus((run, again(whole(3), 1)), reference=0))
    assert document["runs"][0]["duration_s"] is None
    assert document["gate"] is None
