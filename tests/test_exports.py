"""Formats for other programs, held against their schemas or parsers."""

import json
import math
from xml.etree import ElementTree as ET

import pytest
from jsonschema import validate

from harness.analysis.versus import gate, versus
from reports.exports import render_bencher, render_github, render_junit, render_mlperf, render_openmetrics
from tests.comparisons import COMPARISONS, again, comparison, whole
from tests.report_pages import RUNS, analysis

pytestmark = pytest.mark.slow

GITHUB = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1},
            "unit": {"type": "string"},
            "value": {"type": "number"},
            "range": {"type": "string"},
            "extra": {"type": "string"},
        },
        "required": ["name", "unit", "value"],
        "additionalProperties": False,
    },
}
_METRIC = {
    "type": "object",
    "properties": {name: {"type": "number"} for name in ("value", "lower_value", "upper_value")},
    "required": ["value"],
    "additionalProperties": False,
}
BENCHER = {
    "type": "object",
    "additionalProperties": {"type": "object", "additionalProperties": _METRIC, "minProperties": 1},
}


@pytest.mark.parametrize("name", RUNS)
def test_benchmark_trackers_get_each_speed(name: str) -> None:
    speeds = [each.throughput.median for each in analysis(name).summaries]
    github, bencher = json.loads(render_github(analysis(name))), json.loads(render_bencher(analysis(name)))
    validate(github, GITHUB)
    validate(bencher, BENCHER)
    assert [each["value"] for each in github] == speeds
    assert [each["throughput"]["value"] for each in bencher.values()] == speeds


@pytest.mark.parametrize("name", RUNS)
def test_openmetrics_can_be_parsed(name: str) -> None:
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    families = {
        each.name: each for each in parser.text_string_to_metric_families(render_openmetrics(analysis(name)))
    }
    (about,) = families["tfbench_run"].samples
    assert about.labels["profile"] == analysis(name).run.manifest.profile.name
    summaries = analysis(name).summaries
    samples = families["tfbench_samples_per_second"].samples if summaries else []
    assert [each.value for each in samples] == [each.throughput.median for each in summaries]


def test_openmetrics_lines_have_the_fields_of_its_grammar() -> None:
    *lines, end, last = render_openmetrics(analysis("hostile")).split("\n")
    assert (end, last) == ("# EOF", "")
    for line in lines:
        if not line.startswith("# TYPE "):
            name, _, value = line.rpartition(" ")
            assert name.startswith("tfbench_") and name.endswith("}") and math.isfinite(float(value))


@pytest.mark.parametrize("name", RUNS)
def test_mlperf_description_has_every_field(name: str) -> None:
    document = json.loads(render_mlperf(analysis(name)))
    gpus = analysis(name).run.manifest.gpus
    assert len(document) == 33 and "accelerator_on-chip_memories" in document
    assert all(isinstance(value, str) for value in document.values())
    assert document["accelerators_per_node"] == str(len(gpus))
    assert bool(document["accelerator_model_name"]) == bool(gpus)


@pytest.mark.parametrize("name", COMPARISONS)
def test_junit_has_a_case_for_each_comparison(name: str) -> None:
    made = comparison(name)
    checked = gate(made)
    (suite,) = ET.fromstring(render_junit(made, checked))
    cases = list(suite)
    others = len(checked.missing) + len(checked.copied)
    assert len(cases) == sum(each.ratio is not None for each in made.results) + others + checked.is_empty
    assert all(case.get("name") and case.get("classname") for case in cases)
    failed = [case for case in cases if case.find("failure") is not None]
    assert len(failed) == len(checked.failed) + others == int(suite.get("failures", ""))
    assert int(suite.get("tests", "")) == len(cases)


def test_junit_is_read_by_its_consumers() -> None:
    junitparser = pytest.importorskip("junitparser")
    base = again(whole(3), 1, noise=0.001)
    for factor, noise, kind in ((1.0, 0.3, junitparser.Skipped), (0.5, 0.001, junitparser.Failure)):
        made = versus([base, again(whole(3), 2, factor=factor, noise=noise)], reference=0)
        (suite,) = junitparser.JUnitXml.fromstring(render_junit(made, gate(made)).encode())
        for case in suite:
            (result,) = case.result
            assert isinstance(result, kind) and result.message
        assert suite.tests == len(base.speeds)
