from dataclasses import replace

import pytest

from reports.published_chart import published_figure
from tests.comparisons import whole
from tests.report_pages import analysis


def diamonds(**changes: object) -> list[dict]:
    """Return the points of a reference machine in the chart of the GPU run."""
    figure = published_figure(analysis("gpu"), [replace(whole(), label="lab", **changes)])
    layers = figure.spec["vconcat"][0]["layer"]
    names = [layer["data"]["name"] for layer in layers if layer["mark"].get("shape") == "diamond"]
    return [point for name in names for point in figure.spec["datasets"][name]]


def test_a_reference_machine_twice_as_fast_has_twice_the_factor() -> None:
    shown = [each for each in analysis("gpu").published if each.factor and each.is_time_or_speed]
    summaries = {each.key: each for each in analysis("gpu").summaries}
    faster = tuple(
        replace(each, throughput=(2 * summaries[key].throughput.median,))
        for each in whole().speeds
        if (key := each.key) in summaries
    )
    points = diamonds(machine="another", speeds=faster)
    assert [each["value"] for each in points] == pytest.approx([2 * each.factor.median for each in shown])
    assert {each["name"] for each in points} == {"measured by tfbench on lab"}


def test_the_same_machine_is_not_its_own_reference() -> None:
    assert diamonds() == []
