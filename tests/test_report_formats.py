import csv
import io

import pytest

from harness.model.analysis import Key
from reports.exports import cell, render_csv
from reports.text import harmless
from tests.report_pages import RUNS, analysis
from workloads.protocol import MACHINE

pytestmark = pytest.mark.slow


def rows(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(render_csv(analysis(name)))))


@pytest.mark.parametrize("name", RUNS)
def test_csv_has_a_row_for_each_workload_device_and_variant(name: str) -> None:
    result = rows(name)
    wanted = [each.key for each in analysis(name).summaries]
    wanted += [Key(MACHINE, each.device, each.name) for each in analysis(name).capabilities]
    if name != "hostile":
        assert [(row["workload"], row["device"], row["variant"]) for row in result] == wanted
    assert len(result) == len(wanted)
    for row, summary in zip(result, analysis(name).summaries, strict=False):
        assert float(row["samples_per_s"]) == summary.throughput.median
        assert (row["samples_per_s_low"] == "") == (summary.throughput.n == 1)
        assert row["trial_ids"] == harmless(" ".join(summary.trial_ids))


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_csv_escapes_formulas(text: str) -> None:
    assert cell(text)[0] in "'\ufffd"


def test_csv_keeps_plain_values() -> None:
    assert [cell(value) for value in ("cpu", -1.5, None, True)] == ["cpu", -1.5, "", "yes"]
