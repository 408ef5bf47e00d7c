"""Comparisons and histories in a real browser: drawn, silent, offline, and readable by everyone."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.browser.test_report_in_browser import brightness
from tests.comparisons import COMPARISONS, history_page, page

pytestmark = pytest.mark.browser

PAGES = {**dict.fromkeys(COMPARISONS, page), "history": history_page}
FIGURES = {
    "two": ("figure-ranking", "figure-speeds"),
    "fleet": ("figure-ranking", "figure-spreads", "figure-heat"),
    "hostile": ("figure-ranking", "figure-speeds"),
    "together": (
        "figure-together",
        "figure-efficiency",
        "figure-traffic",
        "figure-ranking",
        "figure-speeds",
    ),
    "history": ("figure-trend-1", "figure-trend-2"),
}


@pytest.mark.parametrize("name", FIGURES)
def test_page_is_silent_offline_and_drawn(open_report, name):
    opened = open_report(name, make=PAGES[name])
    assert opened.said == []
    assert [url for url in opened.asked if not url.startswith("file:")] == []
    drawn = opened.page.eval_on_selector_all("figure.figure", "all => all.map(one => one.id)")
    assert tuple(drawn) == FIGURES[name]
    for id_ in drawn:
        live = opened.page.locator(f"#{id_} .live")
        assert live.locator("svg g.mark-rect path, svg g.mark-symbol path").count() > 1
        box = live.locator("svg").bounding_box()
        assert box["width"] > 300


def test_the_map_of_a_fleet_has_a_cell_a_run_and_shows_who_is_slow(open_report):
    live = open_report("fleet", make=page).page.locator("#figure-heat .live")
    cells = live.locator("g.mark-rect path")
    assert cells.count() == 67 * 6 + 67 * 6 + 66 * 4
    slow = live.locator("g.mark-rect path[fill='var(--heat-1)']")
    assert slow.count() == 10, "two nodes, one on a kind of six speeds and one on a kind of four"


@pytest.mark.parametrize(
    ("name", "width"), [("two", 390), ("fleet", 320), ("history", 390), ("eight", 320), ("together", 390)]
)
def test_small_screens_do_not_scroll_sideways(open_report, name, width):
    opened = open_report(name, width=width, height=844, make=PAGES[name])
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize(
    ("name", "scheme"),
    [("two", "light"), ("eight", "dark"), ("fleet", "dark"), ("history", "light"), ("together", "dark")],
)
def test_axe_finds_nothing(open_report, name, scheme):
    opened = open_report(name, scheme=scheme, make=PAGES[name])
    if name != "fleet":  # whose tables have thousands of cells
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


@pytest.mark.parametrize("name", ["two", "history", "together"])
def test_without_scripts_the_figures_are_still_there(open_report, name):
    opened = open_report(name, scripts=False, make=PAGES[name])
    assert opened.page.locator(".still svg").first.is_visible()


def test_hostile_names_run_nothing(open_report):
    opened = open_report("hostile", make=page)
    assert "<script>alert(1)</script>" in opened.page.locator("h1").inner_text()
