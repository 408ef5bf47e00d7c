"""The pages of comparisons: complete, safe, and of a size that opens."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.analysis.gate import gate
from harness.analysis.versus import versus
from reports.compare import render_csv, render_html, render_markdown
from tests.comparisons import COMPARISONS, again, comparison, page, whole
from tests.report_pages import Document

pytestmark = pytest.mark.slow


def document(name: str) -> Document:
    return Document(page(name))


@pytest.mark.parametrize("name", COMPARISONS)
class TestEveryPage:
    def test_is_whole_and_its_ids_are_its_own(self, name: str) -> None:
        made = document(name)
        assert made.unbalanced == []
        assert len(made.ids) == len(set(made.ids))

    def test_has_no_reference_outside_and_nothing_unsaid(self, name: str) -> None:
        made = document(name)
        assert [each for tag in ("link", "img", "iframe") for each in made.all(tag)] == []
        assert [each for each in made.all("script") if each.get("src")] == []
        for word in ("None", "nan", "Undefined", "0x"):
            assert f" {word} " not in made.text

    def test_fits(self, name: str) -> None:
        assert len(page(name)) < 3_000_000


def test_hostile_names_are_text() -> None:
    made = page("hostile")
    assert "<script>alert" not in made
    text = render_markdown(comparison("hostile"))
    assert "<script>" not in text
    assert "\u202e" not in made + text


def test_a_spreadsheet_takes_no_name_for_a_formula() -> None:
    made = versus([again(whole(), 1), again(whole(), 2, label="=1+1")])
    assert "\n'=1+1," in render_csv(made)


def test_a_page_of_two_shows_the_check_and_what_could_be_found() -> None:
    text = document("two").text
    assert "May lose 5" in text
    assert "smallest slowdown" in text
    assert "6 of 6 comparisons are slower than the baseline allows" in text


def test_training_together_has_a_section_of_its_own() -> None:
    text = document("together").text
    assert "Training over 1, 2 and 4 workers" in text
    for said in ("50 %", "20.0 ms", "3.81 MiB", "47.7 MiB/s a", "7.95 MiB/s b, c, d", "oversubscribed"):
        assert said in text.replace("\u202f", " "), said
    assert "used by all workers of a machine alike" in text
    assert "Training together" not in document("eight").text


class TestMarkdown:
    @pytest.mark.parametrize("name", ["two", "together"])
    def test_tables_are_tables(self, name: str) -> None:
        made = comparison(name)
        text = render_markdown(made, gate=gate(made, 0.05))
        for block in text.split("\n\n"):
            lines = block.splitlines()
            if lines[0].startswith("|"):
                assert {line.count(" | ") for line in lines if "---" not in line} <= {lines[0].count(" | ")}
                assert set(lines[1]) <= set("|-: ")
        assert text.count("❌ slower") == (6 if name == "two" else 0)

    def test_training_together_comes_first(self) -> None:
        text = render_markdown(comparison("together"))
        rows = [line for line in text.splitlines() if line.startswith("|")]
        assert rows[0].startswith("| Workload | Device, variant | workers |")
        assert [row.split(" | ")[2] for row in rows[2:5]] == ["1", "2", "4"]
        assert "**50\u202f%**" in rows[4]

    def test_of_a_few_has_every_ratio(self) -> None:
        made = comparison("eight")
        text, _, _ = render_markdown(made).partition("<details>")
        assert text.count("| vm-1 |") == sum(one.tested and one.run == 1 for one in made.ratios)


def test_the_references_speed_is_the_mean_that_ratios_are_over() -> None:
    runs = [again(whole(3), seed) for seed in (1, 2)]
    wide = [
        replace(run, speeds=tuple(replace(one, throughput=(300.0, 1200.0)) for one in run.speeds))
        for run in runs
    ]
    text = Document(render_html(versus(wide), {}, bundle=str)).text
    assert " 600.0 " in text
    assert "1,200" not in text.replace("\u202f", ",")
