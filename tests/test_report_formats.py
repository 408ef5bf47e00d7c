"""The report as CSV for spreadsheets and as PDF for paper."""

from __future__ import annotations

import csv
import io
import re

import pytest

from reports.outline import outline
from reports.pdf import PAPERS, render_pdf
from reports.table import cell, render_csv
from reports.text import harmless
from tests.report_pages import RUNS, analysis

pytestmark = pytest.mark.slow


def rows(name: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(render_csv(analysis(name)))))


@pytest.mark.parametrize("name", RUNS)
def test_csv_has_one_row_for_each_workload_device_and_variant(name: str) -> None:
    found = rows(name)
    wanted = [(one.workload, one.device, one.variant) for one in analysis(name).summaries]
    if name != "hostile":
        assert [(row["workload"], row["device"], row["variant"]) for row in found] == wanted
    assert len(found) == len(wanted)
    for row, summary in zip(found, analysis(name).summaries, strict=True):
        assert float(row["samples_per_s"]) == summary.throughput.median
        assert (row["samples_per_s_low"] == "") == (summary.throughput.n == 1)
        assert row["trial_ids"] == harmless(" ".join(summary.trial_ids))


def test_csv_carries_ratios() -> None:
    ratios = {(row["device"], row["variant"]): row["gpu_over_cpu"] for row in rows("gpu")}
    assert float(ratios["gpu0", "tuned"]) > 1
    assert ratios["cpu", "tuned"] == ""


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_csv_runs_no_formula(text: str) -> None:
    assert cell(text)[0] in "'\ufffd"


def test_csv_leaves_plain_values_alone() -> None:
    assert [cell(value) for value in ("cpu", -1.5, None, True)] == ["cpu", -1.5, "", "yes"]


@pytest.mark.parametrize(("paper", "width"), [("a4", 595), ("letter", 612)])
def test_pdf_is_made_for_either_paper(paper: str, width: int) -> None:
    pdf = render_pdf(analysis("bare"), paper=paper)
    assert set(PAPERS) == {"a4", "letter"}
    assert re.search(rb"/MediaBox ?\[0 0 (\d+)", pdf).group(1) == str(width).encode()


@pytest.mark.parametrize("name", [name for name in RUNS if name != "bare"])
def test_every_report_can_be_typeset(name: str) -> None:
    assert render_pdf(analysis(name)).startswith(b"%PDF-")


def test_outline_keeps_words_and_drops_what_paper_has_no_use_for() -> None:
    tree = outline(
        '<h2 id="a">Title</h2><p>One  <b>two</b>\n three</p>'
        '<figure id="f"><svg><text>no</text></svg></figure>'
        "<script>no</script><details><summary>no</summary></details>"
        "<article><details><summary>yes</summary></details></article>"
        "<pre>  kept\n</pre>"
    )
    title, words, figure, article, code = tree["children"]
    assert (title["tag"], title["id"], title["children"]) == ("h2", "a", ["Title"])
    assert [part if isinstance(part, str) else part["children"] for part in words["children"]] == [
        "One ", ["two"], " three",
    ]  # fmt: skip
    spaced = outline("<section>\n<h2>a</h2>\n<p>b <i>c</i> <b>d</b></p>\n</section>")["children"][0]
    assert [child["tag"] for child in spaced["children"]] == ["h2", "p"]
    assert spaced["children"][1]["children"][2] == " "
    assert outline("<dt>long_<wbr>name</dt>")["children"][0]["children"] == ["long_", "\u200b", "name"]
    assert words["class"] == ["sticky"], "it leads up to the figure"
    assert figure["children"] == []
    assert article["children"][0]["children"][0]["children"] == ["yes"]
    assert code["children"] == ["  kept\n"]
