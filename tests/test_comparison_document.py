"""comparison.json: valid against the shipped schema, which names every field that is written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from harness.analysis.comparison_document import (
    COMPARISON_VERSION,
    comparison_document,
    comparison_schema,
)
from harness.analysis.gate import gate
from harness.analysis.versus import versus
from harness.model.comparison import Versus
from tests.comparisons import again, comparison, fleet, whole
from tests.test_analysis_results import closed

MADE = {
    "two": versus((whole(3), again(whole(3), 1)), reference=0),
    "single trials": versus((again(whole(3), 1, trials=1), again(whole(3), 2, trials=1)), reference=0),
    "kinds": versus(tuple(again(whole(kind), kind) for kind in range(4)), reference=1),
    "many": versus(fleet(25), reference=None),
    "together": comparison("together"),
}


def written(one: Versus, *, checked: bool) -> Any:
    """Give a document as a reader of the file meets it."""
    document = comparison_document(one, gate(one, 0.05) if checked else None)
    return json.loads(json.dumps(document, allow_nan=False))


def test_the_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(comparison_schema())
    assert comparison_schema()["properties"]["schema_version"] == {"const": COMPARISON_VERSION}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("checked", [False, True])
def test_every_comparison_is_valid_and_nothing_in_it_is_undescribed(name: str, checked: bool) -> None:
    document = written(MADE[name], checked=checked)
    errors = Draft202012Validator(closed(comparison_schema())).iter_errors(document)
    assert [f"{error.json_path}: {error.message}" for error in errors] == []


def test_what_is_missing_or_of_another_type_is_noticed() -> None:
    validator = Draft202012Validator(comparison_schema())
    document = written(MADE["two"], checked=False)
    assert not validator.is_valid({name: value for name, value in document.items() if name != "ratios"})
    document["ratios"][0]["outcome"] = "perhaps"
    assert not validator.is_valid(document)
