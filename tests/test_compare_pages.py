"""The pages of comparisons and histories: complete, safe, and of a size that opens."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from harness.analysis.gate import gate
from harness.analysis.history import history
from harness.analysis.versus import versus
from reports.compare import render_csv, render_html, render_markdown
from reports.history_chart import figures_of
from tests import comparisons
from tests.comparisons import COMPARISONS, again, comparison, history_page, page, whole
from tests.report_pages import Document

pytestmark = pytest.mark.slow

PAGES = {**dict.fromkeys(COMPARISONS, page), "history": history_page}


def document(name: str) -> Document:
    return Document(PAGES[name](name))


@pytest.mark.parametrize("name", PAGES)
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
        assert len(PAGES[name](name)) < 3_000_000


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


def test_a_page_of_many_counts_instead_of_a_column_each() -> None:
    made = document("fleet")
    assert "node-017" in made.text
    assert "67 × 1 × NVIDIA H200" in page("fleet")
    assert max(len(row) for row in _rows(made)) < 12


def _rows(made: Document) -> list[list[str]]:
    rows: list[list[str]] = []
    for tag, _ in made.elements:
        if tag == "tr":
            rows.append([])
        elif tag in ("td", "th") and rows:
            rows[-1].append(tag)
    return rows


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

    def test_of_many_is_short(self) -> None:
        assert len(render_markdown(comparison("fleet"))) < 20_000

    def test_of_a_few_has_every_ratio(self) -> None:
        made = comparison("eight")
        text, _, _ = render_markdown(made).partition("<details>")
        assert text.count("| vm-1 |") == sum(one.tested and one.run == 1 for one in made.ratios)


def test_dates_and_changes_of_a_history() -> None:
    text = document("history").text
    assert "30 runs through time" in text
    assert "images, cpu: image-one → image-two" in text
    first = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=comparisons.CHANGED)
    assert f"{first.day} {first:%B %Y}" in text


def test_the_references_speed_is_the_mean_that_ratios_are_over() -> None:
    runs = [again(whole(3), seed) for seed in (1, 2)]
    wide = [
        replace(run, speeds=tuple(replace(one, throughput=(300.0, 1200.0)) for one in run.speeds))
        for run in runs
    ]
    text = Document(render_html(versus(wide), {}, bundle=str)).text
    assert " 600.0 " in text
    assert "1,200" not in text.replace("\u202f", ",")


def test_a_levels_line_is_the_median_of_its_runs() -> None:
    base = whole(3)
    runs = [again(base, day, noise=0.0, factor=factor) for day, factor in enumerate((1.0, 1.2))]
    for figure in figures_of(history(runs)).values():
        for panel in figure.spec["vconcat"]:
            levels, points = (layer["data"]["values"] for layer in (panel["layer"][0], panel["layer"][-1]))
            (level,) = levels
            assert level["v"] == pytest.approx(sum(point["v"] for point in points) / 2)
