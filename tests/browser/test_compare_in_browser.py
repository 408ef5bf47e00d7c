"""Comparisons in a real browser: drawn, silent, offline, and readable by everyone."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe

from reports.compare_charts import figures_of
from tests.browser.test_report_in_browser import brightness
from tests.comparisons import comparison, page

pytestmark = pytest.mark.browser

# What a page may be at 1280 by 900: the words that a reader sees, and screens.
WORDS, SCREENS = 3000, 6


@pytest.mark.parametrize("name", ["two", "eight", "fleet", "trend", "together"])
def test_page_is_short(open_report, name):
    opened = open_report(name, width=1280, make=page)
    assert opened.page.evaluate("document.body.innerText.split(/\\s+/).length") <= WORDS
    assert opened.page.evaluate("document.documentElement.scrollHeight") <= SCREENS * 900


@pytest.mark.parametrize("name", ["two", "fleet", "hostile", "trend", "together"])
def test_page_is_silent_offline_and_drawn(open_report, name):
    opened = open_report(name, make=page)
    assert opened.messages == []
    assert [url for url in opened.asked if not url.startswith("file:")] == []
    drawn = opened.page.eval_on_selector_all("figure.figure", "all => all.map(one => one.id)")
    assert sorted(drawn) == sorted(figures_of(comparison(name)))
    for id_ in drawn:
        live = opened.page.locator(f"#{id_} .live")
        assert live.locator("svg g.mark-rect path, svg g.mark-symbol path").count() > 0
        box = live.locator("svg").bounding_box()
        assert box["width"] > 300


@pytest.mark.parametrize(("name", "width"), [("two", 390), ("fleet", 320), ("eight", 320), ("together", 390)])
def test_small_screens_do_not_scroll_sideways(open_report, name, width):
    opened = open_report(name, width=width, height=844, make=page)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize(
    ("name", "scheme"),
    [("two", "light"), ("eight", "dark"), ("fleet", "dark"), ("together", "dark")],
)
def test_axe_finds_nothing(open_report, name, scheme):
    opened = open_report(name, scheme=scheme, make=page)
    if name != "fleet":  # whose tables have many cells
        opened.page.eval_on_selector_all("details", "all => all.forEach(each => each.open = true)")
    found = Axe().run(
        opened.page, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}
    )
    bad = [
        (each["id"], each["nodes"][0]["html"][:120])
        for each in found.response["violations"]
        if each["impact"] in ("serious", "critical", "moderate")
    ]
    assert bad == []
    paper = brightness(opened.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert paper < 40 if scheme == "dark" else paper > 240


@pytest.mark.parametrize("name", ["two", "together"])
def test_without_scripts_the_figures_are_still_there(open_report, name):
    opened = open_report(name, scripts=False, make=page)
    assert opened.page.locator(".still svg").first.is_visible()


def test_hostile_names_run_nothing(open_report):
    opened = open_report("hostile", make=page)
    assert "<script>alert(1)</script>" in opened.page.locator("h1").inner_text()
