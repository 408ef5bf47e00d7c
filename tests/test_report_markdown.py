import re

import pytest

from reports.messages import caveat_lines
from reports.numbers import speed
from reports.overview import rows
from reports.page import render_markdown
from reports.text import code_block, escape_markdown
from tests import builders
from tests.report_pages import RUNS, analysis


@pytest.mark.parametrize("name", RUNS)
def test_table_rows_have_equal_numbers_of_cells(name):
    text = render_markdown(analysis(name))
    width = 0
    for line in text.splitlines():
        cells = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
        if width and cells:
            assert cells == width, line
        width = cells


@pytest.mark.parametrize("name", ["suite", "cpu", "gpu", "four-gpus"])
def test_it_has_the_overview_the_caveats_and_the_command(name):
    result = analysis(name)
    text = render_markdown(result)
    for row in rows(result):
        assert f"**{speed(row.baseline)}**" in text
    for caveat, _ in caveat_lines(result.caveats, notes=False):
        assert escape_markdown(caveat) in text
    assert result.run.manifest.command in text
    assert "None" not in text


def test_hostile_names_have_no_effect_in_markdown():
    text = render_markdown(analysis("hostile"))
    outside_code = re.sub(r"(`+).*?\1", "", text, flags=re.DOTALL)
    assert re.findall(r"<(?!/?(?:details|summary)>)", outside_code) == []
    assert "\u202e" not in text
    assert builders.HOSTILE.split("\u202e")[0][:8] not in outside_code


@pytest.mark.parametrize(
    ("raw", "escaped"),
    [
        ("a|b", r"a\|b"),
        ("*x* _y_ `z`", r"\*x\* \_y\_ \`z\`"),
        ("[a](http://b)", "\\[a\\](http:\u200d//b)"),
        ("line\nbreak", "line break"),
        ("- item", r"\- item"),
        ("1. item", r"1\. item"),
        ("3.1× faster", "3.1× faster"),
        ("@someone #12", "@\u200dsomeone \\#12"),
        ("<b>&amp;", "&lt;b>&amp;amp;"),
    ],
)
def test_escapes(raw, escaped):
    assert escape_markdown(raw) == escaped


def test_code_fences_are_longer_than_backticks_in_the_code():
    assert code_block("```\nx").startswith("````\n")
